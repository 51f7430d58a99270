"""A page over its real server: who gets in, and what hostile or broken clients cost."""

import json
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from swarm_node.commands.page import command
from swarm_node.common.errors import UserError
from swarm_node.page.server import HEADER_BYTES, listener_at
from swarm_node.page.start import token_of
from tests.core.page.conftest import Served, serving
from tests.runs import home_with, line, round_done
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.slow
PATHS = ["/api/state", "/api/samples", "/api/stream", "/metrics", "/static/app.js"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_with(tmp_path_factory.mktemp("served") / "home", 5)


@pytest.fixture(scope="module")
def page(home: Path) -> Iterator[Served]:
    """One page for all tests that end no page and need no other options."""
    with serving(home, "--names", "swarm.example") as found:
        yield found


def raw(port: int, data: bytes, seconds: float = PATIENCE) -> bytes:
    """What the server says to these bytes until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        said = bytearray()
        with suppress(OSError):
            while chunk := connection.recv(65536):
                said += chunk
        return bytes(said)


def test_without_the_token_everything_is_refused(page: Served) -> None:
    for path in [*PATHS, "/nothing"]:
        assert page.get(path, token=False).status_code == 401, path
        for wrong in ("x", page.token[:-1], page.token + "x", "\u00e4" * 9):
            headers = {"authorization": f"Bearer {wrong}".encode()}
            assert page.ask("GET", path, headers=headers).status_code == 401
    headers = {"cookie": "swarm-node=x; broken;;="}
    assert page.ask("GET", "/api/state", headers=headers).status_code == 401


def enter(page: Served, content: bytes, **headers: str) -> httpx.Response:
    """Posts to the page as its entrance does."""
    sent = {"origin": page.base, "content-type": "application/json", **headers}
    return page.ask("POST", "/api/enter", content=content, headers=sent)


def test_the_token_stays_comes_by_post_and_becomes_a_cookie_that_only_this_page_gets(
    home: Path, page: Served
) -> None:
    assert token_of(home) == page.token and (home / "page.token").stat().st_mode & 0o777 == 0o600
    assert page.addresses == [f"{page.base}/#token={page.token}"]
    with httpx.Client(base_url=page.base, timeout=PATIENCE) as browser:
        door = browser.get("/")
        assert door.status_code == 200 and "enter.js" in door.text and "app.js" not in door.text
        assert (
            browser.get("/static/enter.js").status_code == 200
            and browser.get("/api/state").status_code == 401
        )
        entered = browser.post(
            "/api/enter", json={"token": page.token}, headers={"origin": page.base}
        )
        assert entered.status_code == 204
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        assert browser.get("/api/state").json()["whole"]["rounds"][:3] == [0, 1, 2]
        assert "app.js" in browser.get("/").text
    for answered in (door, entered):
        assert "default-src 'none'" in answered.headers["content-security-policy"]
        assert "unsafe" not in answered.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answered.headers
        assert answered.headers["referrer-policy"] == "no-referrer"


def test_a_token_in_a_query_opens_nothing(page: Served) -> None:
    """A query stands in the logs of proxies, in histories, and wherever else addresses are kept."""
    for path in ("/api/state", "/metrics", "/static/app.js"):
        found = page.ask("GET", path, params={"token": page.token})
        assert found.status_code == 401 and "set-cookie" not in found.headers


def test_the_entrance_takes_the_token_from_its_own_page_alone(page: Served) -> None:
    right = json.dumps({"token": page.token}).encode()
    assert enter(page, right).status_code == 204
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ):
        assert enter(page, right, **headers).status_code == 403, headers
    with httpx.Client(base_url=page.base, timeout=PATIENCE) as nobody:
        assert nobody.post("/api/enter", json={"token": page.token}).status_code == 403
    wrong = [b"", b"{", b"[]", b"null", b"1e999", b'"x"', b"[" * 900]
    wrong += [b'{"token": 1}', b'{"token": null}', b'{"token": ""}']
    wrong += [
        json.dumps({"token": each}).encode()
        for each in (page.token[:-1], page.token + "x", "\u00e4", "\ud800")
    ]
    wrong += [b'{"token": "' + b"x" * 100_000 + b'"}']
    for content in wrong:
        found = enter(page, content)
        assert found.status_code == 401 and "set-cookie" not in found.headers, content[:40]
    assert page.ask("GET", "/api/enter").status_code == 405


def test_a_name_that_was_rebound_to_this_machine_is_refused(page: Served) -> None:
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        assert page.get("/api/state", host=host).status_code in (400, 421), host
    assert page.get("/static/app.css", token=False, host="evil.example").status_code == 421
    for host in ("localhost", "127.0.0.1:9", "[::1]", "192.0.2.7:80", "swarm.example"):
        assert page.get("/api/state", host=host).status_code == 200, host


def test_other_sites_get_nothing_even_with_the_cookie(page: Served) -> None:
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{page.port + 1}"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ):
        assert page.get("/api/state", **headers).status_code == 403, headers
    assert page.get("/api/state", origin=page.base).status_code == 200
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        headers = {"authorization": f"Bearer {page.token}"}
        assert page.ask(method, "/api/state", headers=headers).status_code == 405, method


def test_its_own_page_alone_tells_the_node_to_rest_to_go_on_and_to_ask(
    home: Path, page: Served
) -> None:
    right = {
        "authorization": f"Bearer {page.token}",
        "origin": page.base,
        "content-type": "application/json",
    }

    def told(what: object, **changes: str) -> int:
        headers = {name: value for name, value in (right | changes).items() if value}
        return page.ask(
            "POST", "/api/act", content=json.dumps({"do": what}), headers=headers
        ).status_code

    assert told("pause", authorization="") == 401
    for wrong in (
        {"origin": ""},
        {"origin": "http://evil.example"},
        {"content-type": "text/plain"},
    ):
        assert told("pause", **wrong) == 403, wrong
    assert page.get("/api/act").status_code == 405
    assert not (home / "paused").exists()
    for what, file, there in (
        ("pause", "paused", True),
        ("validate", "validate", True),
        ("resume", "paused", False),
    ):
        assert told(what) == 204
        assert (home / file).exists() is there
    for unknown in ("../x", "", None, ["pause"], {"pause": 1}, 7):
        assert told(unknown) == 400, unknown
    (home / "validate").unlink()
    (home / "validate").symlink_to(home / "elsewhere")
    assert told("validate") == 409 and not (home / "elsewhere").exists()


def test_no_path_leads_out_of_what_ships(page: Served) -> None:
    paths = (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/",
    )
    for path in (
        *paths,
        "/../page.token",
        "/page.token",
        "/static/uPlot.LICENSE",
        "/static/tasks.txt",
        "/static/\x00",
    ):
        reply = raw(
            page.port,
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n"
            "Connection: close\r\n\r\n".encode(),
        )
        assert reply.split(b" ", 2)[1] in (b"404", b"400"), path


def test_headers_that_are_too_large_are_refused(page: Served) -> None:
    lines = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * 4 * HEADER_BYTES
    )
    said = raw(page.port, lines + b"\r\n\r\n")
    assert said == b"" or {b"400", b"431"} & {*said.splitlines()[0].split()}
    assert page.get("/api/state").status_code == 200


def test_a_viewer_that_never_reads_costs_the_others_nothing(home: Path, page: Served) -> None:
    request = (
        f"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n\r\n"
    ).encode()
    deaf = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(5)]
    for connection in deaf:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(request)
    with viewer(page) as reader:
        lines = reader.iter_lines()
        next(each for each in lines if each.startswith("event: anew"))
        with (home / "events.jsonl").open("a") as file:
            for number in range(101, 140):
                file.write(
                    line(round_done(number, reward_by_task={f"task{k}": 0.5 for k in range(40)}))
                )
        rounds = [json.loads(each[6:])["round"][0] for each in lines_until(lines, 139)]
    assert rounds == list(range(101, 140))
    for connection in deaf:
        connection.close()


def viewer(page: Served) -> AbstractContextManager[httpx.Response]:
    """A viewer that follows the stream of events."""
    headers = {"authorization": f"Bearer {page.token}"}
    return httpx.stream("GET", f"{page.base}/api/stream", headers=headers, timeout=PATIENCE)


def lines_until(lines, last: int) -> list[str]:
    found = []
    for each in lines:
        if each.startswith('data: {"round"'):
            found.append(each)
            if json.loads(each[6:])["round"][0] == last:
                return found
    raise AssertionError("the stream ended")


def test_metrics_count_what_the_events_say(home: Path, page: Served) -> None:
    def counted(*names: str) -> list[float]:
        rows = [
            row.rpartition(" ")
            for row in page.get("/metrics").text.splitlines()
            if not row.startswith("#")
        ]
        found = {row[0]: float(row[-1]) for row in rows}
        return [found[f"swarm_node_{name}"] for name in names]

    names = ("generated_tokens_total", 'phase_seconds_total{phase="train"}')
    skipped = 'skipped_groups_total{reason="prompt too long"}'
    tokens, seconds, left_out, rounds = counted(*names, skipped, "rounds_total")
    with (home / "events.jsonl").open("a") as file:
        for number in range(200, 204):
            file.write(line(round_done(number, generated_tokens=100)))
    until(lambda: counted("rounds_total") == [rounds + 4])
    assert counted(*names, skipped) == [tokens + 400, seconds + 2.0, left_out + 4]
    assert counted('task_reward{task="lcm/easy"}', "reward", "up") == [0.5, 0.25, 0.0]


def test_the_public_view_and_metrics_can_be_opened_and_nothing_else(tmp_path: Path, serve) -> None:
    page = serve(home_with(tmp_path, 1), "--public", "--open-metrics")
    assert page.get("/", token=False).status_code == 200
    view = page.get("/api/public", token=False)
    assert view.status_code == 200 and "12D3" not in view.text and "/ip4/" not in view.text
    assert set(view.json()["estimated"]) <= view.json().keys()
    until(lambda: page.get("/metrics", token=False).status_code == 200)
    assert "app.js" not in page.get("/node", token=False).text
    for path in ("/api/state", "/api/stream", "/api/samples"):
        assert page.get(path, token=False).status_code == 401, path
    assert "app.js" in page.get("/node").text
    given = {
        "authorization": f"Bearer {page.token}",
        "origin": page.base,
        "content-type": "application/json",
    }
    assert page.ask("POST", "/api/act", content='{"do": "pause"}', headers=given).status_code == 405
    assert not (tmp_path / "paused").exists() and page.get("/api/state").json()["acts"] is False


def test_it_ends_on_a_signal_with_viewers_connected(tmp_path: Path, serve) -> None:
    page = serve(home_with(tmp_path, 1))
    with viewer(page) as reader:
        next(reader.iter_lines())
        page.process.send_signal(signal.SIGTERM)
        assert page.process.wait(PATIENCE) == 0


def test_a_taken_port_is_told_and_a_folder_of_no_node_gets_no_token(
    tmp_path: Path, page: Served
) -> None:
    with pytest.raises(UserError, match="choose another --listen"):
        listener_at(f"127.0.0.1:{page.port}")
    with pytest.raises(UserError, match="no node has run in"):
        command([str(tmp_path)])
    assert not any(tmp_path.iterdir())


def test_its_process_has_no_torch_and_no_secret_and_the_token_is_in_no_command_line(
    tmp_path: Path, serve, monkeypatch
) -> None:
    """It imports nothing from the folder in which it is started. No locale is set, as in a
    container.
    """
    for name in (
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "WANDB_API_KEY",
        "OPENAI_API_KEY",
        "GITHUB_PAT",
    ):
        monkeypatch.setenv(name, f"secret-of-{name}")
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SWARM_NODE_OPEN_METRICS", "true")
    here = tmp_path / "here"
    for name in ("json", "asyncio", "swarm_node", "starlette", "uvicorn", "psutil"):
        (here / name).mkdir(parents=True)
        (here / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(here)
    page = serve(
        home_with(tmp_path / "home", 2),
        program=(str(Path(sys.executable).with_name("swarm-node")),),
    )
    until(
        lambda: page.get("/metrics", token=False).status_code == 200, what="an option in a variable"
    )
    process = psutil.Process(page.process.pid)
    assert "secret-of" not in str(process.environ()) and page.token not in " ".join(
        process.cmdline()
    )
    assert not [each.path for each in process.memory_maps() if "torch" in each.path]
    assert not (tmp_path / "ran").exists()
