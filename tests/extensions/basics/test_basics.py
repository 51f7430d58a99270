"""The small few-shot questions of `basics`."""

import pytest

from protocol.addressing import HELD_OUT, HELD_OUT_ROUNDS, is_held_out, question_seed
from protocol.messages import PeerId, Round
from swarm_node.extensions.basics.environment import KIND
from swarm_node.extensions.basics.questions import TASKS
from swarm_node.extensions.basics.source import build, is_held_out_text, shots_of
from swarm_node.settings import LearningConfig


def asked(prompt: str) -> str:
    return prompt.rpartition("\n")[2]


def test_an_address_has_one_question_and_its_answer() -> None:
    item = build("second", "few", 7, 0)
    assert item == build("second", "few", 7, 0)
    numbers = asked(item.prompt).removeprefix("second of ").removesuffix(":").split(", ")
    assert item.answer == numbers[1]
    assert item.prompt.count("\n") == 4
    assert item.prompt.startswith(build("second", "few", 8, 3).prompt.rpartition("\n")[0])  # the same shots


@pytest.mark.parametrize("task", TASKS)
def test_held_out_questions_are_never_trained_on_nor_shown(task: str) -> None:
    held_out = {
        asked(build(task, "few", question_seed(HELD_OUT, Round(now)), index).prompt)
        for now in range(HELD_OUT_ROUNDS)
        for index in range(8)
    }
    peers = [PeerId(f"peer {number}") for number in range(40)]
    trained = {
        asked(build(task, "few", question_seed(peer, Round(now)), index).prompt)
        for peer in peers
        for now in range(8)
        for index in range(4)
    }
    assert not any(is_held_out(question_seed(peer, Round(now))) for peer in peers for now in range(8))
    assert len(held_out) >= 30
    assert not held_out & trained
    assert all(map(is_held_out_text, held_out))
    assert not any(is_held_out_text(shot) for shot, _ in shots_of(task, 8))


@pytest.mark.parametrize("task", TASKS)
def test_a_right_answer_is_paid_and_nothing_beside_it(task: str) -> None:
    item = build(task, "few", 1, 0)
    assert item.score(f" {item.answer}\nand more") == 1.0
    assert [item.score(text) for text in ("", f"{item.answer} or not", f"the {item.answer}", "\n\nno")] == [0.0] * 4


def test_a_node_scores_it_in_its_scoring_process() -> None:
    environment = KIND.start(["larger/few"], LearningConfig())
    try:
        (question,) = environment.sample(PeerId("somebody"), Round(0), 1)
        (prompt,) = environment.prompts([question])
        assert isinstance(prompt, str)
        right = KIND.answer(question)
        assert environment.score([(question, [right, f" {right}\n", "7"])]) == [(1.0, 1.0, 0.0)]
    finally:
        environment.close()
