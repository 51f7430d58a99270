"""A scripted person in a real browser: alone, and between two real nodes that train on what it answers."""

import re
from collections.abc import Callable
from math import gcd
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from swarm_node.commands.home import load_identity
from tests.commands import started
from tests.network.test_nodes import address, reports, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
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
        seen.tab.get_by_role("button", name="Leave").click()
        seen.tab.get_by_text("ended", exact=True).wait_for()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def trained_on(home: Path, person: str) -> int:
    return sum(each["external_by_peer"].get(person, {}).get("trained", 0) for each in reports(home))


@pytest.mark.network
def test_two_nodes_train_on_what_a_person_answers(tmp_path: Path, visit: Callable[..., Any]) -> None:
    a, b, home = tmp_path / "a", tmp_path / "b", tmp_path / "person"
    with running(a, "run", *SMALL, *TASK, *HERE), running(b, "run", *SMALL, *TASK, *HERE, "--peers", address(a)):
        options = ("--page", "127.0.0.1:0", "--home", home, "--peers", address(a), "--peers", address(b))
        process = started("contribute", "--human", *options, *TASK, *HERE)
        try:
            seen = visit(page_of(process))
            person, until = load_identity(home).peer_id, monotonic() + 240
            while not (trained_on(a, person) and trained_on(b, person)):
                assert monotonic() < until, "no node trained on what the person answered"
                seen.tab.get_by_text("Divisor").wait_for()
                answered(seen.tab)
            seen.tab.close()
            process.terminate()
            process.communicate(timeout=30)
            assert process.returncode == 0
        finally:
            process.kill()
            process.wait()
