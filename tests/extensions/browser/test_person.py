"""A scripted person in a real browser: alone, and between two real nodes that train on what it answers."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import gcd
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest

from swarm_node.commands.home import load_identity
from swarm_node.network.process.service import free_port
from tests.commands import started
from tests.network.test_nodes import reports, running
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SMALL = ("--threads", 1, "--round.questions", 4, "--round.local-groups", 2, "--round.external-groups", 2)
TASK = ("--environment.tasks", "gcd/easy")
HERE = ("--network.host", "127.0.0.1", "--network.no-mdns", "--network.exchange-seconds", 1)


def answered(tab: Any) -> None:
    """One question: a wrong draft, a right one, and on."""
    prompt = tab.locator("#prompt").inner_text()
    right = gcd(*map(int, re.findall(r"\d+", prompt)))
    tab.get_by_label("Your answer").fill(str(right + 1))
    tab.get_by_role("button", name="Score this draft").click()
    tab.get_by_text("reward 0.00").wait_for()
    tab.get_by_label("Your answer").fill(str(right))
    tab.keyboard.press("Control+Enter")
    tab.get_by_text("reward 1.00").wait_for()
    tab.get_by_role("button", name="Publish, next question").press("Enter")
    tab.wait_for_function("(before) => document.getElementById('prompt').innerText !== before", arg=prompt)


def page_of(process: Any) -> str:
    return next(line for line in process.stdout if line.startswith("page: ")).split(": ", 1)[1].strip()


def test_a_person_tries_twice_and_publishes(tmp_path: Path, visit: Callable[..., Any], axe: None) -> None:
    options = ("--page", "127.0.0.1:0", "--network.no-enabled", "--home", tmp_path / "home")
    process = started("contribute", "--human", *options, *TASK)
    try:
        page = page_of(process)
        for size, scheme, published in (("desktop", "light", 1), ("phone", "dark", 2)):
            seen = visit(page, size, scheme)
            seen.tab.get_by_text("Divisor").wait_for()
            answered(seen.tab)
            seen.tab.get_by_text(f"{published} published", exact=True).wait_for()
            assert seen.overflow() <= 0 and seen.violations() == []
            assert "token" not in seen.tab.url
            if published == 1:
                seen.tab.close()  # or it would still ask when the other has made the contributor leave
        seen.tab.get_by_role("button", name="Leave").click()
        seen.tab.get_by_text("ended", exact=True).wait_for()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_late_answer_brings_no_old_question_back(tmp_path: Path, visit: Callable[..., Any]) -> None:
    process = started(
        "contribute", "--human", "--page", "127.0.0.1:0", "--network.no-enabled", "--home", tmp_path, *TASK
    )
    try:
        tab = visit(page_of(process)).tab
        tab.get_by_text("Divisor").wait_for()
        late = []
        tab.route("**/api/desk", lambda route: late.append((route, route.fetch())), times=1)
        with tab.expect_request("**/api/desk"):
            pass
        prompt = tab.locator("#prompt").inner_text()
        tab.get_by_role("button", name="Next question").click()
        tab.wait_for_function("(before) => document.getElementById('prompt').innerText !== before", arg=prompt)
        tab.get_by_label("Your answer").fill("a draft")
        ((route, reply),) = late
        with tab.expect_request("**/api/desk"):  # the page looks again when it has taken this
            route.fulfill(response=reply)
        assert tab.get_by_label("Your answer").input_value() == "a draft"
        assert tab.locator("#prompt").inner_text() != prompt
    finally:
        process.kill()
        process.communicate()


def trained_on(home: Path, person: str) -> int:
    return sum(each["external_by_peer"].get(person, {}).get("trained", 0) for each in reports(home))


@contextmanager
def bootstrap_node(home: Path) -> Iterator[tuple[str, str]]:
    """Its address, and that of its public page."""
    where = ("--host", "127.0.0.1", "--no-mdns", "--port", free_port(), "--page", "127.0.0.1:0")
    process = started("bootstrap", "--home", home, *where)
    try:
        found = dict.fromkeys(("public page: ", "/ip4/127.0.0.1/tcp/"), "")
        while not all(found.values()):
            line = process.stdout.readline()
            found |= {begin: line for begin in found if line.startswith(begin)}
        yield found["/ip4/127.0.0.1/tcp/"].strip(), found["public page: "].split(": ", 1)[1].strip()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


@pytest.mark.network
def test_two_nodes_train_on_what_a_person_answers_and_a_public_page_says_so(
    tmp_path: Path, visit: Callable[..., Any], axe: None
) -> None:
    a, b, home = tmp_path / "a", tmp_path / "b", tmp_path / "person"
    with ExitStack() as stack:
        peer, public = stack.enter_context(bootstrap_node(tmp_path / "bootstrap"))
        for node in (a, b):
            stack.enter_context(running(node, "run", *SMALL, *TASK, *HERE, "--peers", peer))
        process = started(
            "contribute", "--human", "--page", "127.0.0.1:0", "--home", home, *TASK, *HERE, "--peers", peer
        )
        try:
            seen = visit(page_of(process))
            person, deadline = load_identity(home).peer_id, monotonic() + 900
            while not (trained_on(a, person) and trained_on(b, person)):
                assert monotonic() < deadline, "no node trained on what the person answered"
                seen.tab.get_by_text("Divisor").wait_for()
                answered(seen.tab)
            seen.tab.close()
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.communicate()
        shown = visit(public, "phone", "dark")
        shown.tab.get_by_text(re.compile("gcd/easy|other tasks")).first.wait_for(timeout=600_000)
        assert shown.overflow() <= 0 and shown.violations() == []
        view = httpx.get(f"{public}api/public", timeout=PATIENCE).json()
        assert view["connected"] >= 2 and view["direct"] + view["relayed"] == 1.0
        assert abs(sum(view["tasks"].values()) - 1.0) < 1e-6
        assert not re.search(r"12D3|/ip4/|127\.0\.0\.1", json.dumps(view))
