"""The small few-shot questions of `basics`."""

from contextlib import closing
from functools import partial

import pytest

from protocol.addressing import (
    HELD_OUT,
    HELD_OUT_ROUNDS,
    fixed_seed,
    is_held_out,
    is_held_out_text,
    question_seed,
)
from protocol.messages import PeerId, Round
from swarm_node.environments.basics.environment import KIND
from swarm_node.environments.basics.source import TASKS, build
from swarm_node.environments.scored import SHOTS_SEED
from swarm_node.settings import EnvironmentConfig, LearningConfig


def test_an_address_has_one_question_and_its_answer() -> None:
    item = build("second", "few", 7, 0)
    assert item == build("second", "few", 7, 0)
    numbers = item.prompt.removeprefix("second of ").removesuffix(":").split(", ")
    assert item.answer == numbers[1]


@pytest.mark.parametrize("task", TASKS)
def test_held_out_questions_are_never_trained_on_nor_shown(task: str) -> None:
    def asked(author: str, rounds: int, count: int) -> set[str]:
        seed = fixed_seed if author == HELD_OUT else partial(question_seed, "public")
        seeds = [seed(PeerId(author), Round(now)) for now in range(rounds)]
        return {build(task, "few", seed, index).prompt for seed in seeds for index in range(count)}

    held_out = asked(HELD_OUT, HELD_OUT_ROUNDS, 8)
    trained = {prompt for number in range(40) for prompt in asked(f"peer {number}", 8, 4)}
    assert not is_held_out(SHOTS_SEED)
    assert len(held_out) >= 30 and not held_out & trained and all(map(is_held_out_text, held_out))
    assert not any(
        is_held_out_text(build(task, "few", SHOTS_SEED, index).prompt) for index in range(17)
    )


@pytest.mark.parametrize("task", TASKS)
def test_a_right_answer_is_paid_and_nothing_beside_it(task: str) -> None:
    item = build(task, "few", 1, 0)
    assert [item.score(text) for text in (item.answer, f" {item.answer}")] == [1.0, 1.0]
    wrong = (
        "",
        f"{item.answer} or not",
        f"the {item.answer}",
        "no",
        f"{item.answer}\nmore",
        item.answer + " " * 9,
    )
    assert [item.score(text) for text in wrong] == [0.0] * 6


@pytest.mark.parametrize("task", TASKS)
def test_the_keys_of_a_hundred_questions_are_paid_and_so_are_numbers_in_other_spellings(
    task: str,
) -> None:
    for index in range(100):
        item = build(task, "few", 5, index)
        assert item.score(item.answer) == 1.0
        if item.answer.isdigit():
            spelt = (f"{item.answer}.00", f"+{item.answer}", f"${item.answer}$")
            assert [item.score(said) for said in spelt] == [1.0] * 3


@pytest.mark.parametrize(
    ("task", "shots", "shown"), [("larger/few", 0, 4), ("larger/more", 0, 8), ("larger/few", 2, 2)]
)
def test_a_node_shows_shots_and_reads_the_first_line(task: str, shots: int, shown: int) -> None:
    with closing(
        KIND.start([task], LearningConfig(environment=EnvironmentConfig(shots=shots)))
    ) as environment:
        (question,) = environment.sample(PeerId("somebody"), Round(0), 1)
        (prompt,) = environment.prompts([question])
        assert isinstance(prompt, str)
        lines = prompt.splitlines()
        assert len(lines) == shown + 1 and all(line.startswith("larger of ") for line in lines)
        right = KIND.answer(question)
        assert environment.score([(question, [right, f" {right}\nlarger of 1", "7"])]) == [
            (1.0, 1.0, 0.0)
        ]
