"""What a node says of its learning, and how a text is put to its model."""

import json
import shlex
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from protocol.messages import PeerId, Round
from swarm_node.commands.ask import (
    RIGHT,
    Search,
    ValidationAnswers,
    around,
    asked_of_each,
    drawn_of,
    each_shown,
    framed,
    held_out,
    task_of,
    telling,
    validated,
)
from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from swarm_node.environments.registry import build_environment, right_answer
from swarm_node.node.lessons import ROUNDS, Lessons, told
from swarm_node.rollouts.groups import Generated, Selection
from swarm_node.settings import EnvironmentConfig, NodeConfig
from swarm_node.telemetry.events import (
    Corrected,
    Event,
    Notice,
    Telemetry,
    Trained,
    Validated,
)
from tests import groups
from tests.core.telemetry.test_observers import Recorder
from tests.groups import scored


@pytest.fixture
def asking():
    config = NodeConfig(environment=EnvironmentConfig(tasks=("second/few", "next/few")))
    environment = build_environment(config)
    yield environment
    environment.close()


def test_a_text_gets_the_shots_of_the_task_that_it_looks_like(asking) -> None:
    tasks = held_out(asking, 2)
    assert set(tasks) == {"second/few", "next/few"}
    shown, asked = framed("second of 12, 44, 70:", tasks)
    assert shown == "second of 12, 44, 70:" and asked.endswith("\n" + shown)
    assert (
        asked.removesuffix(shown) == around(tasks["second/few"])[0]
        and asked.count("second of") == 5
    )
    assert framed("what is the capital of France?", tasks)[1] == "what is the capital of France?"


def test_the_only_task_frames_every_text_before_and_behind() -> None:
    prompts = [f"Which team?\n{ticket}\nOne word." for ticket in ("my card", "it broke")]
    assert framed("hello", {"dataset/train": prompts})[1] == "Which team?\nhello\nOne word."


def test_without_a_text_a_held_out_question_of_each_task_is_asked(asking) -> None:
    prompts = [prompt for _, prompt in asked_of_each(asking, 2, ValidationAnswers())]
    shown = dict(each_shown(held_out(asking, 2), prompts))
    assert {question.partition(" ")[0] for question in shown} == {"second", "after"}
    assert all(prompt.endswith("\n" + question) for question, prompt in shown.items())


def test_the_question_that_is_shown_was_wrong_before_and_is_right_now(asking) -> None:
    asked = [question for question, _ in asked_of_each(asking, 2, ValidationAnswers())]
    right = [right_answer(NodeConfig(), question) for question in asked]
    wrong = ["?"] * len(asked)
    third = [k for k, question in enumerate(asked) if task_of(question) == "next/few"][2]
    # Of next/few only the third question was learned, of second/few none
    now = [right[k] if k == third else "?" for k in range(len(asked))]
    told = dict(telling(asking, asked, wrong, now))
    assert told[third] and [*told.values()].count(True) == 1 and len(told) == 2
    told = dict(telling(asking, asked, right, right))
    assert not any(told.values()) and len({task_of(asked[k]) for k in told}) == len(told) == 2


def test_questions_that_validation_found_wrong_are_asked_first(asking, tmp_path) -> None:
    every = [question for question, _ in asked_of_each(asking, 1, ValidationAnswers())]
    *_, other, last = [question for question in every if task_of(question) == "next/few"]
    first, second = (f"{task_of(question)}/{question.index}" for question in (last, other))
    measured = {"wrong": {first: "?", second: "!"}, "right": {first: " 7"}}
    (tmp_path / "state.json").write_text(json.dumps({"extra": {"measured": measured}}))
    known = validated(tmp_path)
    assert (
        known == ValidationAnswers(**measured)
        and validated(tmp_path / "none") == ValidationAnswers()
    )
    assert [question for question, _ in asked_of_each(asking, 1, known)][:2] == [last, other]
    assert asked_of_each(asking, 1, ValidationAnswers())[0][0] not in (last, other)


def test_answers_that_validation_drew_are_shown_where_the_likeliest_ones_are_alike(asking) -> None:
    """The likeliest answer may be right before and after a training that made right answers three
    times as likely: what the end of the run shows is found again.
    """
    asked = [question for question, _ in asked_of_each(asking, 2, ValidationAnswers())]
    place = next(k for k, question in enumerate(asked) if task_of(question) == "next/few")
    name = f"next/few/{asked[place].index}"
    known = ValidationAnswers({name: "wrong"}, {name: "right"})
    assert drawn_of("next/few", asked, known) == (place, "wrong", "right")
    assert drawn_of("second/few", asked, known) is None
    assert drawn_of("next/few", asked, ValidationAnswers({name: "wrong"}, {})) is None


@pytest.mark.parametrize(
    "measured", [[], {"right": [1]}, {"wrong": {"a": 7}, "right": {}}, {"wrong": None}, "x"]
)
def test_a_stranger_may_say_anything_of_what_validation_found(tmp_path, measured) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"extra": {"measured": measured}}))
    assert validated(tmp_path) == ValidationAnswers()


def trained(*rewards: float, author: str = "me") -> Trained:
    texts = [f" {number}" for number in range(len(rewards))]
    asked = {"environment": "basics", "version": "1", "dataset": "second", "config_id": "few"}
    group = scored(
        groups.group(PeerId(author), texts=texts, **asked), "shots\nsecond of 1, 2:", rewards
    )
    return Trained(
        Selection(Generated(Round(0), [group], {}, {}), [group], [], [], {}, {}, Random(0))
    )


def watched(home: Path) -> tuple[Telemetry, Recorder, list[str]]:
    said: list[str] = []
    telemetry, kept = Telemetry(show=said.append), Recorder([])
    telemetry.add(Lessons(home, NodeConfig(home=home), telemetry))
    telemetry.add(kept)
    return telemetry, kept, said


def test_ten_rounds_without_a_right_answer_show_one_beside_what_was_wanted(tmp_path) -> None:
    telemetry, kept, _ = watched(tmp_path)
    for right in (0, 0, 1, *[0] * ROUNDS, *[0] * ROUNDS):
        telemetry.emit(trained(float(right), 0.0))
    (notice,) = [event for event in kept.taken if isinstance(event, Notice)]
    said = (
        "no answer was right for 10 rounds",
        "second of 1, 2:",
        "the model answers ' 0'",
        "is expected",
        "Try easier tasks",
    )
    assert [words for words in said if words not in notice.text] == []


def test_what_was_cut_off_asks_for_more_tokens(tmp_path) -> None:
    whole = groups.group(
        PeerId("me"), texts=["The answer", "It"], ended=[False, False], environment="dataset"
    )
    text = told(scored(whole, "A question", (0.0, 0.0)), NodeConfig())
    assert (
        "cut off after 16 tokens" in text
        and "--generation.max-completion-length" in text
        and "wanted" not in text
    )


def test_the_end_says_what_was_learned_and_what_to_do_next(tmp_path) -> None:
    telemetry, _, said = watched(tmp_path)
    telemetry.emit(
        Validated(0, 0.3, 8, False, {"a/few": 0.25, "b/few": 0.5}, {"a/few": 0.25, "b/few": 0.5})
    )
    telemetry.emit(
        Validated(10, 0.9, 8, True, {"a/few": 0.95, "b/few": 0.5}, {"a/few": 0.25, "b/few": 0.5})
    )
    telemetry.close()
    assert said[0] == (
        "right (held out, 8 questions): rose a/few 0.25 -> 0.95; as before b/few 0.50"
    )
    assert len(said) == 3
    assert f"swarm-node ask --home {tmp_path}" in said[1] and "swarm-node run" in said[2]


def ended(tmp_path: Path, *events: Event) -> list[str]:
    telemetry, _, said = watched(tmp_path)
    for event in events:
        telemetry.emit(event)
    telemetry.close()
    return said


def test_what_fell_is_said_beside_what_rose_the_largest_change_first(tmp_path) -> None:
    before = {"a/x": 0.5, "b/x": 0.9, "c/x": 0.1, "d/x": 0.2, "e/x": 0.3, "f/x": 0.0, "g/x": 0.7}
    now = {"a/x": 0.4, "b/x": 0.2, "c/x": 0.2, "d/x": 0.9, "e/x": 0.5, "f/x": 0.5, "g/x": 0.702}
    (line, *_) = ended(
        tmp_path, Validated(0, 0, 63, False, before, before), Validated(9, 0, 63, True, now, before)
    )
    assert line == (
        "right (held out, 63 questions): rose d/x 0.20 -> 0.90, f/x 0.00 -> 0.50, "
        "e/x 0.30 -> 0.50, 1 more; fell b/x 0.90 -> 0.20, a/x 0.50 -> 0.40; as before g/x 0.70"
    )


def test_one_measurement_is_said_once(tmp_path) -> None:
    (line, *_) = ended(tmp_path, Validated(0, 0.31, 16, False, {"a/x": 0.31}, {"a/x": 0.31}))
    assert line == "right (held out, 16 questions): measured once a/x 0.31"
    # After a resume one measurement is compared with that of the first start
    (line, *_) = ended(tmp_path, Validated(9, 0.5, 16, False, {"a/x": 0.5}, {"a/x": 0.31}))
    assert line == "right (held out, 16 questions): rose a/x 0.31 -> 0.50"


def test_a_question_that_was_wrong_and_is_right_is_told_only_if_there_is_one(tmp_path) -> None:
    first = Validated(0, 0.0, 4, False, {"a/x": 0.0}, {"a/x": 0.0})
    learned = Corrected("a/x", "my card", "no idea", "billing\n")
    lines = ended(
        tmp_path, first, Validated(9, 0.5, 4, True, {"a/x": 0.5}, {"a/x": 0.0}, (learned,))
    )
    assert (
        lines[1] == "was wrong, is right now: asked 'my card', it answered 'no idea', now 'billing'"
    )
    lines = ended(tmp_path, first, Validated(9, 0.5, 4, True, {"a/x": 0.5}, {"a/x": 0.0}))
    assert not [line for line in lines if "was wrong" in line]


def test_the_commands_at_the_end_are_quoted_for_a_shell(tmp_path) -> None:
    home = tmp_path / "my home; rm -r x"
    home.mkdir()
    lines = ended(home, Validated(0, 0.0, 4, False, {"a/x": 0.0}, {"a/x": 0.0}))
    typed = [shlex.split(line.partition(": ")[2]) for line in lines[1:]]
    assert [words[:4] for words in typed] == [
        ["swarm-node", "ask", "--home", str(home)],
        ["swarm-node", "run", "--home", str(home)],
    ]


def test_a_run_that_trained_nothing_ends_in_silence(tmp_path) -> None:
    telemetry, _, said = watched(tmp_path)
    telemetry.close()
    assert said == []


@pytest.mark.parametrize("words", [["-5 + 3 ="], ["--", "-5 + 3 ="], ["--", "--help"]])
def test_ask_takes_a_text_that_begins_with_a_dash(words, tmp_path, capsys) -> None:
    with pytest.raises(UserError, match="train first"):  # so the words were taken for a text
        dispatch(["ask", "--home", str(tmp_path), *words])
    assert capsys.readouterr().out == ""


def test_the_search_ends_as_soon_as_each_task_has_right_answers(asking) -> None:
    asked = [question for question, _ in asked_of_each(asking, 2, ValidationAnswers())]
    right = [right_answer(NodeConfig(), question) for question in asked]
    now: list[str] = []
    search = Search(asking, asked)
    while (places := search.chosen(now := [*now, right[len(now)]])) is None:
        pass
    assert search.looked_at < len(asked)
    counts = Counter(task_of(asked[k]) for k in places)
    assert counts.keys() == {"second/few", "next/few"} and min(counts.values()) == RIGHT
    search, now = Search(asking, asked), []
    while (places := search.chosen(now := [*now, "?"])) is None:
        pass
    assert search.looked_at == len(asked)
    assert {task_of(asked[k]) for k in places} == {"second/few", "next/few"} and len(places) == 2
