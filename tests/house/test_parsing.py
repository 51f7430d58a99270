"""Every parser of JSON and TOML is called in common/parsing.py, which bounds what it takes."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HELPER = "swarm_node/common/parsing.py"
PARSERS = {
    "json": {"load", "loads", "JSONDecoder"}, "tomllib": {"load", "loads"}, "pickle": {"*"},
    "msgspec.json": {"decode", "Decoder"}, "yaml": {"*"}, "toml": {"*"}, "tomli": {"*"},
}  # fmt: skip
# File -> why it may call one itself
OURS = {
    "swarm_node/common/children.py": "a child of this process wrote it",
    "swarm_node/node/generator.py": "the trainer wrote it",
    "swarm_node/integrations/handle.py": "the parent process wrote it",
    "swarm_node/environments/dataset/json_rows.py": "it finds the end of an element, bounded there",
    "swarm_node/environments/elsewhere.py": "the parent process wrote it",
    "swarm_node/environments/dataset/source.py": "compile.py of the same folder wrote it",
    "swarm_node/environments/taskset/source.py": "compile.py of the same folder wrote it",
    "swarm_node/environments/taskset/offline.py": "compile.py runs it, in a process of its own",
    "swarm_node/simulation/worker_messages.py": "the parent process wrote it",
    "swarm_node/simulation/engines/real_nodes.py": "nodes of this process wrote it",
    "swarm_node/environments/temporal_clue/make.py": "this program wrote it for its developer",
    "swarm_node/policy/memory_plan.py": "transformers has read it already",
    "swarm_node/environments/reasoning_gym/catalogue.py": "it comes with this package",
    "swarm_node/scoring/contract.py": "frames of the scoring process, bounded there",
    "swarm_node/scoring/playing.py": "it runs in a sandboxed child, and counts the brackets",
    "swarm_node/environments/reasoning_gym/scorers/values.py": "it runs in a sandboxed child",
    "swarm_node/environments/reasoning_gym/scorers/reading.py": "it runs in a sandboxed child",
    "swarm_node/environments/dataset/verifiers.py": "it runs in a sandboxed child",
    "swarm_node/common/http.py": "errors of servers may hold NaN; it catches the rest",
    "swarm_node/contribute/answer.py": "so may their answers; it catches the rest",
    "swarm_node/environments/dataset/hub.py": "it reads the copy that it wrote, which may hold NaN",
    "swarm_node/policy/tokenizer_trial.py": "a tokenizer has a million short lists; it catches all",
    "swarm_node/policy/bounds.py": "configurations of models hold Infinity; it catches the rest",
}


def parsers(text: str) -> Iterator[str]:
    """The parsers that a file names, however it imports them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            known = PARSERS.get(node.module or "", set())
            yield from (name.name for name in node.names if name.name in known or "*" in known)
        elif isinstance(node, ast.Attribute):
            known = PARSERS.get(ast.unparse(node.value), set())
            yield from [node.attr] if node.attr in known or "*" in known else []


def test_whatever_parses_json_or_toml_calls_the_helper_or_stands_here_with_its_reason() -> None:
    files = [file for top in ("swarm_node", "protocol") for file in (ROOT / top).rglob("*.py")]
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    found = {name for name, text in texts.items() if list(parsers(text))}
    assert found == {*OURS, HELPER}


@pytest.mark.parametrize(
    "text",
    ["import json\njson.loads('1')", "from json import loads", "import tomllib\ntomllib.load(f)",
     "import msgspec\nmsgspec.json.decode(b'')", "from msgspec.json import Decoder",
     "import json\nread = json.load"],
)  # fmt: skip
def test_a_new_call_would_be_found(text: str) -> None:
    assert list(parsers(text))
