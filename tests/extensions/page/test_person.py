"""The page on which a person answers, over its real server: what it takes, and from whom."""

import json
import re
import subprocess
from collections.abc import Iterator
from math import gcd
from typing import Any

import httpx
import pytest

from swarm_node.common.errors import UserError
from swarm_node.extensions.contribute.browser import MOST_BYTES
from swarm_node.extensions.contribute.start import command
from tests.commands import killed_in_the_end, page_of, read_until, started
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.slow
ALONE = ("--network.no-enabled", "--environment.tasks", "gcd/easy")


class Person:
    """Answers over HTTP as the page does."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        url = page_of(process)
        self.base = f"http://{url.host}:{url.port}"
        self.headers = {"authorization": f"Bearer {url.fragment.removeprefix('token=')}", "origin": self.base}

    def view(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.base}/api/desk", headers=self.headers, timeout=PATIENCE).json()
        return found

    def send(self, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = {**self.headers, "content-type": "application/json", **headers}
        return httpx.post(f"{self.base}/api/press", content=content, headers=asked, timeout=PATIENCE)

    def press(self, kind: str, text: str = "") -> dict[str, Any]:
        found: dict[str, Any] = self.send({"kind": kind, "number": self.view()["number"], "text": text}).json()
        return found


def answer_to(prompt: str) -> int:
    return gcd(*map(int, re.findall(r"\d+", prompt)))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """One for all tests; the last one leaves."""
    home = tmp_path_factory.mktemp("person") / "home"
    command = started("contribute", "--human", "--page", "127.0.0.1:0", "--home", home, *ALONE)
    with killed_in_the_end(command) as process:
        found = Person(process)
        read_until(process, "others train on it")
        until(lambda: found.view()["prompt"], what="a question")
        yield found


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
        assert browser.get("/static/../desk.py", headers=person.headers).status_code == 404
        assert "person.js" not in browser.get("/").text
    assert person.view()["drafts"] == []


def test_what_the_page_does_not_send_is_refused(person: Person) -> None:
    for body in (b"", b"{", b"[]", b'{"kind": "draft"}', b"[" * 50_000, b'"' + b"x" * MOST_BYTES + b'"'):
        assert person.send(body).status_code == 400, body[:20]
    for wrong in ({"kind": "shell"}, {"number": "1"}, {"number": True}, {"text": ["1"]}):
        assert person.send({"kind": "draft", "number": 1, "text": "1", **wrong}).status_code == 400, wrong
    assert person.view()["drafts"] == []


def test_a_page_is_for_a_person_alone() -> None:
    with pytest.raises(UserError, match="add --human"):
        command(["--api", "http://127.0.0.1:1/v1", "--model", "m", "--page"])


def test_drafts_are_scored_and_published_where_they_differ_in_reward(person: Person) -> None:
    right = answer_to(person.view()["prompt"])
    assert person.press("draft", str(right + 1))["drafts"] == [[str(right + 1), 0.0]]
    assert person.press("draft", str(right + 1))["note"] == "you had that already"
    assert person.press("draft", " \n")["note"] == "there is nothing in it"
    assert person.press("draft", "\ud800")["note"] == "it has a character that no message can hold"
    assert person.press("draft", str(right))["note"] == "reward 1.00"
    after = person.press("go on")
    assert (after["published"], after["number"], after["drafts"]) == (1, 2, [])
    person.press("draft", "no number")
    assert person.press("go on")["published"] == 1, "one draft teaches nothing"
    assert any("one completion" in line for line in person.view()["lines"])
    old = person.send({"kind": "draft", "number": 1, "text": "1"}).json()
    assert (old["number"], old["drafts"]) == (3, []), "an answer to a question that is over is for no other"
    assert person.press("leave")["left"]
    assert person.process.wait(PATIENCE) == 0
