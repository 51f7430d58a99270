"""A scripted person in a real browser."""

import re
from collections.abc import Callable
from math import gcd
from pathlib import Path
from typing import Any

import pytest

from tests.commands import killed_in_the_end, page_of, started
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TASK = ("--environment.tasks", "gcd/easy")


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


def test_a_person_tries_twice_and_publishes(tmp_path: Path, visit: Callable[..., Any], axe: None) -> None:
    options = ("--page", "127.0.0.1:0", "--network.no-enabled", "--home", tmp_path / "home")
    with killed_in_the_end(started("contribute", "--human", *options, *TASK)) as process:
        page = str(page_of(process))
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


def test_a_late_answer_brings_no_old_question_back(tmp_path: Path, visit: Callable[..., Any]) -> None:
    options = ("--page", "127.0.0.1:0", "--network.no-enabled", "--home", tmp_path)
    with killed_in_the_end(started("contribute", "--human", *options, *TASK)) as process:
        tab = visit(str(page_of(process))).tab
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
