"""A node that chooses its tasks, as a real one: from its first round, over a stop and a resume."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from swarm_node.commands.run import run
from swarm_node.rollouts.curriculum import PROBE, CurriculumState
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.jsonlines import read_jsonlines
from swarm_node.training.checkpoint import all_checkpoints, read_state

HARD = "complex_arithmetic/easy"  # for the policy `dense`, which answers most of the others in part
TASKS = (
    *(HARD, "chain_sum/tiny", "gcd/tiny", "count_bits/tiny", "lcm/tiny"),
    "fraction_simplification/tiny",
)


def config(home: Path, rounds: int, **options: Any) -> NodeConfig:
    return NodeConfig.model_validate(
        {
            "home": home,
            "max_rounds": rounds,
            "model": {"name": "dense"},
            "environment": {"tasks": TASKS, "choose": True, "at_once": 3},
            "round": {"questions": 4, "local_groups": 4, "external_groups": 0},
            "checkpoint": {"every": 100},
            "validation": {"every": 3, "questions": 12},
            "network": {"enabled": False},
            "threads": 1,
            **options,
        }
    )


def told(home: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_jsonlines(home / "events.jsonl") if event["event"] == kind]


def without_time(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key != "time"} for event in events]


def asked(home: Path) -> list[set[str]]:
    """The tasks of each round."""
    return [set(event["report"]["reward_by_task"]) for event in told(home, "RoundDone")]


@pytest.mark.slow
def test_its_first_rounds_probe_and_a_resume_goes_on_with_the_same_tasks(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    # The same peer, whose name is in every random stream
    run(config(parts, 3), Console(quiet=True), {})
    whole.mkdir()
    for file in parts.iterdir():
        if file.is_file() and "key" in file.name:
            (whole / file.name).write_bytes(file.read_bytes())
    run(config(whole, 7), Console(quiet=True), {})
    run(config(parts, 7), Console(quiet=True), {})
    assert asked(whole) == asked(parts)
    assert asked(whole)[0] == set(TASKS[: 4 // PROBE])
    # The resume tells where it goes on, and then both tell the same
    later = [
        [event for event in without_time(told(home, "Chosen")) if event["round"] > 3]
        for home in (whole, parts)
    ]
    assert later[0] == later[1] and later[0]
    assert [event["round"] for event in told(parts, "Chosen")].count(3) >= 1
    states = [
        read_state(all_checkpoints(home / "checkpoints")[-1])["extra"]["curriculum"]
        for home in (whole, parts)
    ]
    assert states[0] == states[1] and states[0]["rounds"] == 7
    known = CurriculumState.model_validate(states[0]).tasks
    assert known[HARD].stage == "dropped" and known[HARD].share < 0.02
    assert "practised" in {state.stage for state in known.values()}


@pytest.mark.slow
def test_it_validates_what_it_was_trained_on_and_nothing_else(tmp_path: Path) -> None:
    run(config(tmp_path, 6), Console(quiet=True), {})
    trained = set[str]()
    for rounds, check in zip((3, 6), told(tmp_path, "Validated"), strict=True):
        for event in told(tmp_path, "Chosen"):
            if event["round"] <= rounds:
                trained |= event["practised"].keys()
        assert check["round"] == rounds
        # A task that the same round practised and dropped is among them, too
        assert trained <= check["before"].keys() == check["by_task"].keys()
        assert HARD not in check["by_task"]


@pytest.mark.slow
def test_an_asynchronous_node_chooses_as_well(tmp_path: Path) -> None:
    ahead = {"enabled": True, "max_staleness": 1}
    run(config(tmp_path, 8, asynchronous=ahead), Console(quiet=True), {})
    rounds = asked(tmp_path)
    assert len(rounds) == 8 and rounds[0] == set(TASKS[: 4 // PROBE])
    chosen = told(tmp_path, "Chosen")[-1]
    assert HARD in chosen["dropped"] and chosen["practised"]
    # Two rounds were under way when it was dropped
    assert all(HARD not in tasks for tasks in rounds[3:])
