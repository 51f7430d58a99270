"""Every HTTP client is made in common/http.py, so that one function decides about proxies."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HELPER = "swarm_node/common/http.py"
MAKERS = {
    "httpx": {
        "Client", "AsyncClient", "HTTPTransport", "AsyncHTTPTransport",
        "get", "post", "put", "head", "request", "stream",
    },
    "urllib.request": {"urlopen", "build_opener", "urlretrieve"},
    "http.client": {"HTTPConnection", "HTTPSConnection"},
}  # fmt: skip
LIBRARIES = {"requests", "aiohttp", "urllib3", "httpcore", "websockets"}


def clients(text: str) -> set[str]:
    """What this file names that makes HTTP requests."""
    named = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in MAKERS.get(ast.unparse(node.value), ()):
            named.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            makers = MAKERS.get(node.module or "", set())
            named |= {alias.name for alias in node.names if alias.name in makers}
            named |= {node.module or ""} & LIBRARIES
        elif isinstance(node, ast.Import):
            named |= {alias.name.partition(".")[0] for alias in node.names} & LIBRARIES
    return named


def test_no_other_file_of_the_package_makes_a_client() -> None:
    files = (ROOT / "swarm_node").rglob("*.py")
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    assert {name for name, text in texts.items() if clients(text)} == {HELPER}


@pytest.mark.parametrize(
    "text",
    [
        "import httpx\nhttpx.Client()",
        "import httpx\nhttpx.get('http://a')",
        "from httpx import AsyncClient",
        "import urllib.request\nurllib.request.urlopen('http://a')",
        "from urllib.request import urlopen",
        "import requests",
        "from aiohttp import ClientSession",
    ],
)
def test_a_client_is_found_however_it_is_named(text: str) -> None:
    assert clients(text)
