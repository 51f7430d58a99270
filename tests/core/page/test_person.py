"""The page on which a person answers, over its real server: what it takes, and from whom."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from itertools import count
from math import gcd
from pathlib import Path
from typing import Any

import httpx
import pytest

from swarm_node.page.asking import Asking
from swarm_node.page.person import MOST_BYTES, Reach
from tests.commands import killed_in_the_end, page_of, read_until, started
from tests.waiting import PATIENCE, until

ALONE = ("--network.no-enabled", "--environment.tasks", "gcd/easy")


class Person:
    """Answers over HTTP as the page does."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        url = page_of(process)
        self.base = f"http://{url.host}:{url.port}"
        token = url.fragment.removeprefix("token=")
        self.headers = {"authorization": f"Bearer {token}", "origin": self.base}

    def view(self) -> dict[str, Any]:
        reply = httpx.get(f"{self.base}/api/desk", headers=self.headers, timeout=PATIENCE)
        seen: dict[str, Any] = reply.json()
        return seen

    def send(self, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = {**self.headers, "content-type": "application/json", **headers}
        address = f"{self.base}/api/press"
        return httpx.post(address, content=content, headers=asked, timeout=PATIENCE)

    def press(self, kind: str, text: str = "") -> dict[str, Any]:
        pressed = {"kind": kind, "number": self.view()["number"], "text": text}
        seen: dict[str, Any] = self.send(pressed).json()
        return seen


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """One for all tests; the last one leaves."""
    home = tmp_path_factory.mktemp("person") / "home"
    words = ("contribute", "--human", "--listen", "127.0.0.1:0", "--home", home, *ALONE)
    with killed_in_the_end(started(*words)) as process:
        read_until(process, "others train on it")
        somebody = Person(process)
        until(lambda: somebody.view()["prompt"], what="a question")
        yield somebody


@pytest.mark.slow
def test_nobody_else_answers_for_a_person(person: Person) -> None:
    draft = {"kind": "draft", "number": 1, "text": "1"}
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ):
        assert person.send(draft, **headers).status_code == 403, headers
    assert person.send(draft, authorization="Bearer x").status_code == 401
    assert person.send(draft, host="evil.example").status_code == 421
    without = {key: value for key, value in person.headers.items() if key != "origin"}
    with httpx.Client(base_url=person.base, timeout=PATIENCE) as browser:
        assert browser.post("/api/press", json=draft, headers=without).status_code == 403
        assert browser.get("/api/press", headers=person.headers).status_code == 405
        assert browser.post("/api/desk", json=draft, headers=person.headers).status_code == 405
        assert browser.get("/api/desk").status_code == 401
        assert browser.get("/static/../desk.py", headers=person.headers).status_code == 404
        assert "person.js" not in browser.get("/").text
        seen = browser.get("/", headers=person.headers)
        assert "person.js" in seen.text
        assert "script-src 'self'" in seen.headers["content-security-policy"]
    assert person.view()["drafts"] == []


@pytest.mark.slow
def test_what_the_page_does_not_send_is_refused(person: Person) -> None:
    long = b'"' + b"x" * MOST_BYTES + b'"'
    for body in (b"", b"{", b"[]", b"null", b'{"kind": "draft"}', b"[" * 50_000, long):
        assert person.send(body).status_code == 400, body[:20]
    for wrong in ({"kind": "shell"}, {"number": "1"}, {"number": True}, {"text": ["1"]}):
        sent = {"kind": "draft", "number": 1, "text": "1", **wrong}
        assert person.send(sent).status_code == 400, wrong
    assert person.view()["drafts"] == []


@pytest.mark.slow
def test_drafts_are_scored_as_text_and_published_where_they_differ_in_reward(
    person: Person,
) -> None:
    right = gcd(*map(int, re.findall(r"\d+", person.view()["prompt"])))
    hostile = f"<script>alert({right})</script>"
    view = person.press("draft", hostile)
    assert view["drafts"] == [[hostile, 0.0, 0.0]]
    raw = httpx.get(f"{person.base}/api/desk", headers=person.headers, timeout=PATIENCE).text
    assert "<" not in raw
    assert person.press("draft", hostile)["note"].startswith("Not taken: you have that")
    assert person.press("publish")["note"] == "Not published."
    assert person.press("draft", str(right))["note"] == "Answer 2 scores 1.00."
    after = person.press("publish")
    assert (after["published"], after["number"], after["drafts"]) == (1, 2, [])
    assert after["reach"] == {"connected": 0, "enabled": False, "downloads": {}}
    ((name, task, answers),) = after["sent"]
    assert len(name) == 43 and (task, answers) == ("gcd/easy", 2)
    person.press("draft", "no number")
    assert person.press("skip")["published"] == 1, "one answer teaches nothing"
    old = person.send({"kind": "draft", "number": 1, "text": "1"}).json()
    assert (old["number"], old["drafts"]) == (3, []), "that question is over"
    assert person.press("leave")["left"]
    assert person.process.wait(PATIENCE) == 0


def test_downloads_are_numbers_that_only_grow_whatever_the_node_says() -> None:
    said: list[Any] = [
        {"network": {"enabled": True, "connected": 2, "downloads": {"a": 2, "b": 1}}},
        {"network": {"enabled": True, "connected": 1, "downloads": {"a": 1}}},
        {"network": {"enabled": True, "connected": 1, "downloads": {"a": "<b>"}}},
        {"network": []},
        {},
    ]
    times = count(0, 10)

    async def looked() -> list[dict[str, Any]]:
        asking = Asking(Path("home"), lambda _: said.pop(0), lambda: float(next(times)))
        reach = Reach(asking)
        return [json.loads(json.dumps(await reach.now())) for _ in range(5)]

    first, second, *others = asyncio.run(looked())
    most = {"a": 2, "b": 1}
    assert first == {"connected": 2, "enabled": True, "downloads": most}
    assert second == {"connected": 1, "enabled": True, "downloads": most}
    assert others == [{"connected": None, "enabled": True, "downloads": most}] * 3
