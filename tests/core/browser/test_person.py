"""A person who answers the questions of a swarm in a real browser, by the keyboard alone."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any

import pytest

from lab.studies.guests import address, peer_id
from tests.commands import killed_in_the_end, page_of, started
from tests.network.test_nodes import reports, running
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TASK = ("--environment.tasks", "gcd/easy")
HERE = ("--network.host", "127.0.0.1", "--network.no-mdns", "--network.exchange-seconds", 2)
NEXT = "(before) => document.getElementById('prompt').innerText !== before"
FOCUS = "(words) => document.activeElement.textContent.trim() === words"


class Person:
    """Presses keys, and looks at what the page says."""

    def __init__(self, tab: Any) -> None:
        self.tab, self.keys = tab, tab.keyboard

    def start(self) -> None:
        """Reads the lesson, whose button has the focus."""
        self.tab.get_by_role("heading", name="Two different answers, at least").wait_for()
        assert not self.tab.get_by_label("Your answer", exact=True).is_visible()
        self.tab.wait_for_function(FOCUS, arg="Start answering")
        self.keys.press("Enter")
        self.tab.get_by_text("Divisor").wait_for()

    def right(self) -> int:
        """The right answer to the question that is shown."""
        asked = self.tab.locator("#prompt").inner_text()
        return gcd(*map(int, re.findall(r"\d+", asked)))

    def write(self, text: str, said: str) -> None:
        """Writes over what the box holds, which has the focus, and waits for a word on it."""
        assert self.tab.evaluate("document.activeElement.id") == "draft"
        self.keys.type(text)
        self.keys.press("Control+Enter")
        self.tab.locator("#note").get_by_text(said).wait_for()

    def go_to(self, button: str) -> None:
        """Goes on from the box to a button."""
        for _ in range(6):
            self.keys.press("Tab")
            if self.tab.evaluate(FOCUS, arg=button):
                return
        raise AssertionError(f"the keyboard does not reach {button}")

    def answer(self) -> None:
        """A wrong answer, a right one, and both are published."""
        asked = self.tab.locator("#prompt").inner_text()
        right = self.right()
        self.write(str(right + 1), "Answer 1 scores 0.00")
        self.write(str(right), "Answer 2 scores 1.00")
        self.tab.locator("#verdict").get_by_text("These answers would teach").wait_for()
        self.go_to("Publish")
        self.keys.press("Enter")
        self.tab.wait_for_function(NEXT, arg=asked)


@contextmanager
def answering(home: Path, *options: object) -> Iterator[tuple[str, Any]]:
    """A contributor at which a person answers: the address of its page, and its process."""
    words = ("contribute", "--human", "--listen", "127.0.0.1:0", "--home", home, *TASK, *options)
    with killed_in_the_end(started(*words)) as process:
        yield str(page_of(process)), process


def test_a_persons_answers_are_trained_on_by_two_nodes(
    tmp_path: Path, visit: Callable[..., Any], axe: None
) -> None:
    first, second, home = tmp_path / "first", tmp_path / "second", tmp_path / "person"
    few = ("--round.questions", 4, "--round.local-groups", 2, "--round.external-groups", 4)
    node = ("run", "--model.name", "rarest", "--threads", 1, *few, *TASK, *HERE)
    with ExitStack() as stack:
        stack.enter_context(running(first, *node))
        entrance = ("--peers", address(first))
        stack.enter_context(running(second, *node, *entrance))
        page, process = stack.enter_context(answering(home, *entrance, *HERE))
        person = Person(visit(page).tab)
        person.start()
        for _ in range(3):
            person.answer()
        person.tab.get_by_text("2 nodes have downloaded it").first.wait_for()
        me = peer_id(home)
        for learner in (first, second):
            until(partial(trained, learner, me), what="training on the person")
        person.go_to("Leave")
        person.keys.press("Enter")
        person.tab.get_by_text("ended", exact=True).wait_for()
        assert process.wait(PATIENCE) == 0


def trained(learner: Path, author: str) -> int:
    """Groups of this author on which a node has trained."""
    counts = [report["external_by_peer"].get(author, {}) for report in reports(learner)]
    return sum(count.get("trained", 0) for count in counts)


def test_a_person_sees_what_teaches_nothing_and_the_page_is_for_everybody(
    tmp_path: Path, visit: Callable[..., Any], axe: None
) -> None:
    with answering(tmp_path / "home", "--network.no-enabled") as (page, process):
        for size, scheme, published in (("desktop", "light", 1), ("phone", "dark", 2)):
            seen = visit(page, size, scheme)
            person = Person(seen.tab)
            if published == 1:
                person.start()
            else:
                # Who has published knows the lesson
                seen.tab.get_by_label("Your answer", exact=True).wait_for()
                seen.tab.get_by_label("Your answer", exact=True).focus()
            right = person.right()
            verdict = seen.tab.locator("#verdict")
            person.write(str(right + 1), "Answer 1 scores 0.00")
            verdict.get_by_text("One answer alone teaches nothing").wait_for()
            person.write(str(right + 1), "you have that answer already")
            person.write(str(right + 2), "Answer 2 scores 0.00")
            verdict.get_by_text("all score 0.00, so none is better").wait_for()
            person.go_to("Publish")
            person.keys.press("Enter")
            seen.tab.locator("#note").get_by_text("Not published").wait_for()
            assert seen.overflow() <= 0 and seen.violations() == []
            seen.tab.get_by_label("Your answer", exact=True).focus()
            person.keys.press("Control+a")
            person.write(f"<b>{right}</b>", "Answer 3 scores 0.00")
            person.write(str(right), "Answer 4 scores 1.00")
            person.go_to("Publish")
            person.keys.press("Enter")
            seen.tab.get_by_text(f"{published} published, network off").wait_for()
            seen.tab.get_by_text("it stays on this computer").first.wait_for()
            assert seen.overflow() <= 0 and seen.violations() == []
            assert "token" not in seen.tab.url
            if published == 1:
                # Or it would still ask when the other has made the contributor leave
                seen.tab.close()
        person.go_to("Leave")
        person.keys.press("Enter")
        seen.tab.get_by_text("ended", exact=True).wait_for()
        assert process.wait(PATIENCE) == 0


def test_a_late_answer_brings_no_old_question_back(
    tmp_path: Path, visit: Callable[..., Any]
) -> None:
    with answering(tmp_path, "--network.no-enabled") as (page, _):
        tab = visit(page).tab
        Person(tab).start()
        late = []
        tab.route("**/api/desk", lambda route: late.append((route, route.fetch())), times=1)
        with tab.expect_request("**/api/desk"):
            pass
        asked = tab.locator("#prompt").inner_text()
        tab.get_by_role("button", name="Another question").click()
        tab.wait_for_function(NEXT, arg=asked)
        tab.get_by_label("Your answer", exact=True).fill("a draft")
        ((route, reply),) = late
        with tab.expect_request("**/api/desk"):  # the page looks again when it has taken this
            route.fulfill(response=reply)
        assert tab.get_by_label("Your answer", exact=True).input_value() == "a draft"
        assert tab.locator("#prompt").inner_text() != asked
