"""Which proxy a request goes through, and what a server's words are."""

import asyncio
import socket
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import httpx
import psutil
import pytest

from lab.benchmarks.served import Quiet, serving
from swarm_node.common.errors import UserError
from swarm_node.common.http import async_client, client, server_words
from swarm_node.common.proxies import proxy_for, through
from swarm_node.network.trial import download
from tests.socks import socks_proxy, without_socksio

PROXY = "http://proxy.example:3128"
OWN_ADDRESSES = [
    address.address
    for interface in psutil.net_if_addrs().values()
    for address in interface
    if address.family == socket.AF_INET
]


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.8.9.10",
        "127.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST",
        "api.localhost",
        "localhost.",
        socket.gethostname(),
        *OWN_ADDRESSES,
    ],
)
def test_a_request_to_this_machine_goes_through_no_proxy(host: str) -> None:
    for value in (PROXY, "socks5://proxy.example:1080", "nonsense://"):
        everywhere = {"ALL_PROXY": value, "http_proxy": value, "HTTPS_PROXY": value}
        for scheme in ("http", "https"):
            assert proxy_for(f"{scheme}://{host}:8000/v1", everywhere) is None


RULES: list[tuple[dict[str, str], str, str]] = [
    ({"HTTP_PROXY": PROXY}, "http://a.example", "HTTP_PROXY"),
    ({"HTTP_PROXY": PROXY}, "https://a.example", ""),
    ({"https_proxy": PROXY}, "https://a.example", "https_proxy"),
    ({"all_proxy": PROXY}, "https://a.example", "all_proxy"),
    ({"ALL_PROXY": PROXY, "HTTP_PROXY": PROXY}, "http://a.example", "HTTP_PROXY"),
    ({"http_proxy": PROXY, "HTTP_PROXY": "other:1"}, "http://a.example", "http_proxy"),
    ({"http_proxy": "", "HTTP_PROXY": PROXY}, "http://a.example", ""),
    ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, "http://a.example", ""),
    ({"http_proxy": PROXY, "REQUEST_METHOD": "GET"}, "http://a.example", "http_proxy"),
    ({"HTTP_PROXY": "proxy.example:3128"}, "http://a.example", "HTTP_PROXY"),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "*"}, "http://a.example", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "example"}, "http://a.example", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "b.example, .A.example"}, "http://x.a.example", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "*.a.example"}, "http://x.a.example", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "a.example"}, "http://aa.example", "HTTP_PROXY"),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "a.example:81"}, "http://a.example:81", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "a.example:81"}, "http://a.example", "HTTP_PROXY"),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "a.example:80"}, "http://a.example", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "192.0.2.0/24"}, "http://192.0.2.9", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "192.0.2.0/24"}, "http://192.0.3.9", "HTTP_PROXY"),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "192.0.2.9"}, "http://192.0.2.9:8000", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "2001:db8::/32"}, "http://[2001:db8::5]:80", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "[2001:db8::5]:80"}, "http://[2001:db8::5]:80", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "[2001:db8::5]:81"}, "http://[2001:db8::5]", "HTTP_PROXY"),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": "http://a.example"}, "http://a.example", ""),
    ({"HTTP_PROXY": PROXY, "NO_PROXY": ",, "}, "http://a.example", "HTTP_PROXY"),
    ({"ALL_PROXY": "socks5://p:1", "NO_PROXY": "a.example"}, "http://a.example", ""),
]


@pytest.mark.parametrize(("variables", "url", "variable"), RULES)
def test_the_variables_say_which_proxy_and_the_exceptions_are_heard(
    variables: dict[str, str], url: str, variable: str
) -> None:
    proxy = proxy_for(url, variables)
    assert (proxy.variable if proxy else "") == variable
    assert proxy is None or proxy.url == PROXY


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            "socks5://ann:swordfish@p:1080",
            r"SOCKS proxy \(socks5://\*\*\*@p:1080\).*httpx\[socks\]",
        ),
        ("ftp://p:1", "is not an address of a proxy"),
        ("ann:swordfish@p:99999", "is not an address of a proxy"),
        ("http://", "is not an address of a proxy"),
        ("socks4://p:1", "is not an address of a proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_one_line_with_its_variable(
    value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_socksio(monkeypatch)
    with pytest.raises(UserError, match=f"ALL_PROXY.*{told}") as raised:
        proxy_for("https://a.example", {"ALL_PROXY": value})
    assert "\n" not in str(raised.value) and "swordfish" not in str(raised.value)


def test_a_socks_proxy_is_used_where_its_package_is_there() -> None:
    proxy = proxy_for("http://a.example", {"ALL_PROXY": "socks5h://p:1080"})
    assert proxy is not None and proxy.url == "socks5h://p:1080"


class Elsewhere(Quiet):
    """Sends on to another host, or answers as the proxy that is asked for it."""

    server: "Server"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path.startswith("http://"):
            self.raw(b"through the proxy")
        else:
            self.raw(b"", 302, Location="http://a.example/there")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Elsewhere)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def test_a_redirect_to_another_host_is_decided_anew(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    with client(follow_redirects=True) as asking:
        assert asking.get(f"{server.url}/here").text == "through the proxy"
    assert server.asked == ["/here", "http://a.example/there"]
    server.asked.clear()
    assert download(f"{server.url}/card", 1000) == b"through the proxy"
    assert server.asked == ["/card", "http://a.example/there"]


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_request_goes_through_a_socks_proxy_which_looks_the_host_up(
    scheme: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socks_proxy(server.server_address[1]) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"{scheme}://{proxy.address}")
        with client() as asking:
            assert asking.get("http://a.example/x").headers["location"] == "http://a.example/there"
        assert asyncio.run(_asked_in_a_loop("http://b.example:81/y")) == 302
        with client() as asking:
            asking.get(f"{server.url}/here")
    assert proxy.asked == ["a.example:80", "b.example:81"], "nothing for this machine"
    assert server.asked == ["/x", "/y", "/here"]


async def _asked_in_a_loop(url: str) -> int:
    async with async_client() as asking:
        return (await asking.get(url)).status_code


def test_a_socks_proxy_gets_the_password_of_the_variable_and_no_line_shows_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socks_proxy(server.server_address[1], password="ann:swordfish") as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5://ann:swordfish@{proxy.address}")
        with client() as asking:
            assert asking.get("http://a.example/x").status_code == 302
        monkeypatch.setenv("ALL_PROXY", f"socks5://ann:goldfish@{proxy.address}")
        with pytest.raises(UserError, match="of ALL_PROXY") as raised:
            download("http://a.example/x", 1000)
    assert proxy.passwords == ["ann:swordfish", "ann:goldfish"]
    assert "goldfish" not in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "behaves",
    [
        {"refuses": True},
        {"password": "ann:swordfish"},
        {"raw": b"HTTP/1.1 400 Bad Request\r\n\r\n"},
        {"raw": b"\x05\xff"},
        {"raw": b"\x05"},
        {"raw": b"\x05\x00\x05\x00\x00\x09"},
        {"raw": b"\x05\x07"},
    ],
    ids=str,
)
def test_a_socks_proxy_that_does_not_help_is_one_line_with_the_variable(
    behaves: dict[str, Any], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socks_proxy(server.server_address[1], **behaves) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5://{proxy.address}")
        told = f"through the proxy .*{proxy.address} of ALL_PROXY"
        with pytest.raises(UserError, match=told) as raised:
            download("http://a.example/card", 1000)
        with pytest.raises(httpx.TransportError), client() as asking:
            asking.get("http://a.example/card")
        with pytest.raises(httpx.TransportError):
            asyncio.run(_asked_in_a_loop("http://a.example/card"))
    assert "\n" not in str(raised.value) and not server.asked


def test_a_card_that_no_proxy_can_fetch_is_one_line_with_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_socksio(monkeypatch)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(UserError, match=r"ALL_PROXY names a SOCKS proxy"):
        download("https://a.example/card", 1000)
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with pytest.raises(UserError, match=r"through the proxy http://127\.0\.0\.1:1 of ALL_PROXY"):
        download("https://a.example/card", 1000)
    assert through("https://a.example") and not through("http://127.0.0.1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"error": {"message": "no such model", "code": 5}}', "no such model"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"message": "no such model", "error": true}', "no such model"),
        (b'{"detail": [{"loc": ["body", "n"], "msg": "too many"}]}', "body.n: too many"),
        (b'[{"error": {"message": "one"}}, {"error": {"message": "two"}}]', "one; two"),
        (b"<html><head><title>502\n Bad Gateway</title></head></html>", "502 Bad Gateway"),
        (b"<html><body><style>p {}</style><p>Gone &amp; lost</p></body></html>", "Gone & lost"),
        (b"  plain\n text ", "plain text"),
        (b"", ""),
        (b"{}", ""),
        (b'{"error": null}', ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_what_a_server_says_went_wrong_is_found_in_each_form(content: bytes, words: str) -> None:
    assert server_words(content) == words


def test_words_that_lie_too_deep_are_not_looked_for() -> None:
    deep = b'{"error": ' * 20 + b'"here"' + b"}" * 20
    assert server_words(deep) == ""
    assert server_words(b'{"error": ' * 100_000).startswith('{"error":'), "shown as it is"
