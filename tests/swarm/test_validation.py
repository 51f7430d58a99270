"""The best checkpoint by held-out questions is kept beside the last ones, also over a resume."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from swarm_node.commands.run import run
from swarm_node.node.evaluation import Measured, best_so_far
from swarm_node.settings import (
    CheckpointConfig,
    EnvironmentConfig,
    NodeConfig,
    RoundConfig,
    ValidationConfig,
)
from swarm_node.telemetry.jsonlines import read_jsonlines
from swarm_node.training.checkpoint import all_checkpoints, read_state
from tests.commands import ended_well


def config(home: Path, rounds: int) -> NodeConfig:
    return NodeConfig.model_validate(
        {
            "home": home,
            "max_rounds": rounds,
            "model": {"name": "dense"},
            "environment": EnvironmentConfig(tasks=("chain_sum/tiny", "gcd/tiny")),
            "round": RoundConfig(questions=2, local_groups=2, external_groups=0),
            "checkpoint": CheckpointConfig(every=100),
            "validation": ValidationConfig(every=1, questions=8),
            "network": {"enabled": False},
            "threads": 1,
        }
    )


@pytest.mark.slow
def test_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    for rounds in (2, 4):  # stopped in the middle, and resumed
        run(config(tmp_path, rounds), Console(quiet=True), {})
    events = [
        event
        for event in read_jsonlines(tmp_path / "events.jsonl")
        if event["event"] == "Validated"
    ]
    assert [event["round"] for event in events] == [0, 1, 2, 3, 4]
    first, *_, last = events
    assert (
        first["before"] == first["by_task"] == last["before"]
        and not first["best"]
        and not first["corrected"]
    )
    assert {each["task"] for each in last["corrected"]} <= {"chain_sum/tiny", "gcd/tiny"}
    kept = read_state(all_checkpoints(tmp_path / "checkpoints")[-1])["extra"]["measured"]
    measured = Measured.model_validate(kept)
    wrong = wrong_at_first(tmp_path)
    assert (measured.before, measured.now) == (last["before"], last["by_task"])
    assert measured.wrong == wrong and measured.right.keys() <= wrong.keys()
    # `ask` finds there what the end of the run shows
    shown = {(each["task"], each["before"], each["now"]) for each in last["corrected"]}
    found = {(name.rpartition("/")[0], wrong[name], text) for name, text in measured.right.items()}
    assert shown <= found and {task for task, *_ in shown} == {task for task, *_ in found}
    highest = max(events[1:], key=lambda event: event["reward"])  # the first of equals
    assert [event["round"] for event in events if event["best"]][-1] == highest["round"]
    (kept,) = all_checkpoints(tmp_path / "best")
    assert (
        read_state(kept)["rounds"] == highest["round"]
        and best_so_far(tmp_path / "best") == highest["reward"]
    )
    assert {event["questions"] for event in events} == {8}


def wrong_at_first(home: Path) -> dict[str, str]:
    """The wrong answers of the first validation, which every checkpoint keeps as they are."""
    found = read_state(all_checkpoints(home / "checkpoints")[0])["extra"]["measured"]["wrong"]
    assert 0 < len(found) <= 8
    return found


@pytest.mark.slow
def test_a_task_that_cannot_be_scored_ends_no_validation_and_is_named_once(tmp_path: Path) -> None:
    # Answers that no starter writes: its verifier gives a score to the right one alone
    rows = [{"question": f"What is {n} + 1?", "answer": f"Nobody says {n}!"} for n in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "verifier.py").write_text(
        "def verify(text, answer):\n    return 1.0 if text == answer else None\n"
    )
    home = tmp_path / "home"
    done = ended_well(
        *("run", "--home", home, "--threads", 1, "--network.no-enabled", "--max-rounds", 2),
        *("--dataset.file", tmp_path / "rows.jsonl", "--dataset.held-out", 0.3),
        *("--dataset.verifier", f"{tmp_path / 'verifier.py'}:verify"),
        # What is too long to be paid is scored 0 without the verifier, except this form
        *("--environment.answer", "anywhere"),
        *("--environment.tasks", "dataset/train", "gcd/tiny", "--environment.at-once", 1),
        *("--validation.every", 1, "--validation.questions", 8),
    )
    told = [line for line in done.stdout.splitlines() if "this task is not validated" in line]
    assert len(told) == 1 and "dataset/held_out" in told[0] and "not a score" in told[0]
    events = list(read_jsonlines(home / "events.jsonl"))
    validated = [event for event in events if event["event"] == "Validated"]
    assert [list(event["by_task"]) for event in validated] == [["gcd/tiny"]] * 3
    assert all(event["unasked"] == {"dataset/held_out": "not a score"} for event in validated)


@pytest.mark.slow
def test_a_task_that_cannot_be_asked_lets_the_next_one_of_its_environment_be_asked(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    done = ended_well(
        *("run", "--home", home, "--threads", 1, "--network.no-enabled", "--max-rounds", 2),
        # Prompts of the first are longer than what completions leave of the context of 512 tokens
        *("--environment.tasks", "game_of_life/default", "gcd/tiny", "--environment.at-once", 1),
        *("--generation.max-completion-length", 440),
        *("--validation.every", 1, "--validation.questions", 8),
    )
    events = list(read_jsonlines(home / "events.jsonl"))
    validated = [event for event in events if event["event"] == "Validated"]
    assert [list(event["by_task"]) for event in validated] == [["gcd/tiny"]] * 3, done.stdout
