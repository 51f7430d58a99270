"""The desk at which a person answers: what it takes, says of a group, and hands on."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from protocol.limits import MAX_EPISODE_CHARS
from protocol.messages import Episode
from swarm_node.contribute.desk import (
    DRAFT,
    LEAVE,
    PASSED_OVER,
    PUBLISH,
    SKIP,
    Desk,
    Left,
    how_scored,
)
from swarm_node.environments.scored import Rewards
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings import EnvironmentConfig
from tests.waiting import until

ONE_PLUS_ONE = {"2": 1.0, "two": 1.0, "nearly": 0.5}


class Asker:
    """A contributor that asks what 1 + 1 is."""

    published = 0

    def task(self) -> str:
        """A task."""
        return "sums/easy"

    def score(self, texts: Sequence[str]) -> Rewards:
        """1 for a right answer; it cannot be scored where it says so."""
        if "hang" in texts:
            return Skipped("scoring timeout")
        return tuple(ONE_PLUS_ONE.get(text, 0.0) for text in texts)

    def fits(self, texts: Sequence[str]) -> bool:
        """Whether they are short together."""
        return sum(map(len, texts)) < 2 * MAX_EPISODE_CHARS


Answered = Future[tuple[Episode, ...] | Skipped]


@contextmanager
def asked(desk: Desk) -> Iterator[Answered]:
    """A question that waits for the person; at the end the person leaves."""
    with ThreadPoolExecutor(1) as pool:
        before = desk.view()["number"]
        answered = pool.submit(desk.complete, "1 + 1?")
        until(lambda: desk.view()["number"] > before, what="the question")
        try:
            yield answered
        finally:
            desk.close()


def desk_of(most: int = 8) -> Desk:
    return Desk(most, "by a rule", Asker())


def wrote(desk: Desk, text: str) -> dict[str, Any]:
    """What the desk shows after a draft."""
    desk.press(DRAFT, desk.view()["number"], text)
    return desk.view()


def test_a_person_sees_at_once_how_each_answer_scores_and_whether_the_group_teaches() -> None:
    desk = desk_of()
    with asked(desk):
        first = desk.view()
        assert (first["prompt"], first["task"], first["scoring"]) == (
            "1 + 1?",
            "sums/easy",
            "by a rule",
        )
        assert "Then write a different one" in first["verdict"]
        view = wrote(desk, "3")
        assert view["drafts"] == [["3", 0.0, 0.0]] and view["note"] == "Answer 1 scores 0.00."
        assert "One answer alone teaches nothing" in view["verdict"]
        view = wrote(desk, "4")
        assert "a right one" in view["verdict"] and not view["teaches"]
        view = wrote(desk, "2")
        mean = 1 / 3
        assert view["drafts"][2] == ["2", 1.0, pytest.approx(1 - mean)]
        assert view["teaches"] and "the mean of 0.33" in view["verdict"]


def test_two_right_answers_teach_nothing() -> None:
    desk = desk_of()
    with asked(desk):
        wrote(desk, "2")
        view = wrote(desk, "two")
        assert not view["teaches"] and "a wrong one" in view["verdict"]


def test_what_teaches_nothing_is_not_published() -> None:
    desk = desk_of()
    with asked(desk) as answered:
        for text in ("3", "4"):
            wrote(desk, text)
            desk.press(PUBLISH, 1, "")
            assert desk.view()["note"] == "Not published." and not answered.done()
        wrote(desk, "2")
        with ThreadPoolExecutor(1) as other:
            pressed = other.submit(desk.press, PUBLISH, 1, "")
            made = answered.result()
            desk.close()
            pressed.result()
        assert isinstance(made, tuple) and [episode.text for episode in made] == ["3", "4", "2"]


@pytest.mark.parametrize(
    ("drafts", "text", "why"),
    [
        ((), " \n", "there is nothing in it"),
        ((), "\ud800", "it has a character that no message can hold"),
        ((), "x" * (MAX_EPISODE_CHARS + 1), f"{MAX_EPISODE_CHARS} are the most"),
        ((), "hang", "it cannot be scored here (scoring timeout)"),
        (("3",), "3", "you have that answer already"),
        (("3", "4"), "5", "2 answers to a question are the most"),
    ],
    ids=["empty", "half a character", "too long", "not scorable", "twice", "too many"],
)
def test_a_draft_that_cannot_be_an_answer_is_not_taken(
    drafts: tuple[str, ...], text: str, why: str
) -> None:
    desk = desk_of(most=2)
    with asked(desk):
        for draft in drafts:
            wrote(desk, draft)
        view = wrote(desk, text)
        assert why in view["note"] and [row[0] for row in view["drafts"]] == list(drafts)


def test_an_answer_to_a_question_that_is_over_is_for_no_other() -> None:
    desk = desk_of()
    with asked(desk):
        desk.press(DRAFT, 0, "2")
        desk.press(PUBLISH, 7, "")
        assert desk.view()["drafts"] == [] and desk.view()["number"] == 1


def test_a_question_can_be_passed_over() -> None:
    desk = desk_of()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(desk.complete, "1 + 1?")
        until(lambda: desk.view()["number"] == 1, what="the question")
        pressed = pool.submit(desk.press, SKIP, 1, "")
        assert first.result() is PASSED_OVER
        second = pool.submit(desk.complete, "1 + 1?")
        pressed.result()  # with the next question
        assert desk.view()["number"] == 2 and desk.view()["prompt"] == "1 + 1?"
        desk.press(LEAVE, 2, "")
        with pytest.raises(Left):
            second.result()
        assert desk.view()["left"] and desk.view()["prompt"] is None


def test_what_was_published_is_listed_newest_first() -> None:
    desk = desk_of()
    for name in ("one", "other"):
        desk.published(name)
    assert [row[0] for row in desk.view()["sent"]] == ["other", "one"]


def test_it_is_said_how_an_answer_is_scored() -> None:
    said = how_scored(EnvironmentConfig())
    assert "1 for a right answer and 0 for any other" in said
    assert "any other text next to it" in said
    graded = how_scored(EnvironmentConfig(scoring="graded", answer="tags"))
    assert "less for one that is right in part" in graded and "<answer>" in graded


def test_answers_that_no_message_holds_together_are_refused_before_they_are_scored() -> None:
    desk = desk_of()
    with asked(desk):
        for mark in "ab":
            shown = wrote(desk, mark + "x" * (MAX_EPISODE_CHARS - 2))
        assert len(shown["drafts"]) == 2
        shown = wrote(desk, "too much")
        assert len(shown["drafts"]) == 2 and "longer together" in shown["note"]
        assert len(wrote(desk, "2")["drafts"]) == 3
