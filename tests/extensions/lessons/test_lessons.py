"""What a node says of its learning, and how a text is put to its model."""

from pathlib import Path
from random import Random

import pytest

from protocol.messages import PeerId, Round
from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from swarm_node.environments.registry import build_environment
from swarm_node.extensions.lessons.ask import around, framed, held_out, one_of_each
from swarm_node.extensions.lessons.observer import ROUNDS, Lessons, told
from swarm_node.rollouts.groups import Generated, ScoredGroup, Selection
from swarm_node.settings import EnvironmentConfig, NodeConfig
from swarm_node.telemetry.events import Notice, Telemetry, Trained, Validated
from tests import groups
from tests.core.telemetry.test_observers import Recorder


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
    shown = dict(one_of_each(held_out(asking, 2)))
    assert [question.partition(" ")[0] for question in shown] == ["second", "after"]
    assert all(prompt.endswith("\n" + question) for question, prompt in shown.items())


def trained(*rewards: float, author: str = "me") -> Trained:
    texts = [f" {number}" for number in range(len(rewards))]
    asked = {"environment": "basics", "version": "1", "dataset": "second", "config_id": "few"}
    group = ScoredGroup(
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
        "it says ' 0'",
        "is wanted",
        "Try easier tasks",
    )
    assert [words for words in said if words not in notice.text] == []


def test_what_was_cut_off_asks_for_more_tokens(tmp_path) -> None:
    whole = groups.group(
        PeerId("me"), texts=["The answer", "It"], ended=[False, False], environment="dataset"
    )
    text = told(ScoredGroup(whole, "A question", (0.0, 0.0)), NodeConfig())
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
    assert (
        len(said) == 3
        and "a/few 0.25 -> 0.95, b/few 0.50 -> 0.50" in said[0]
        and "held out" in said[0]
    )
    assert f"swarm-node ask --home {tmp_path}" in said[1] and "swarm-node run" in said[2]


def test_a_run_that_trained_nothing_ends_in_silence(tmp_path) -> None:
    telemetry, _, said = watched(tmp_path)
    telemetry.close()
    assert said == []


@pytest.mark.parametrize("words", [["-5 + 3 ="], ["--", "-5 + 3 ="], ["--", "--help"]])
def test_ask_takes_a_text_that_begins_with_a_dash(words, tmp_path, capsys) -> None:
    with pytest.raises(UserError, match="train first"):  # so the words were taken for a text
        dispatch(["ask", "--home", str(tmp_path), *words])
    assert capsys.readouterr().out == ""
