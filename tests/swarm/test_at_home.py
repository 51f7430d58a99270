"""Nodes on one machine as people start them at home: they share in many rounds, and say so."""

import json
import subprocess
from pathlib import Path

import pytest

from swarm_node.commands.status import ask
from swarm_node.telemetry.jsonlines import read_jsonlines
from tests.commands import ENDS_SECONDS, ended, killed_in_the_end, started
from tests.waiting import PATIENCE, until

SETTLING = 10.0  # seconds after a node's first round
# The least share of later rounds with external groups. docs/results/at_home.md: 81 % or more on two
# busy cores. It was 52 % on a crowded machine, and 12 % before groups served several quick rounds.
SHARED = 0.3


def shares(home: Path) -> list[bool]:
    """Whether each round after the settling trained on external groups."""
    if not (home / "events.jsonl").exists():
        return []
    rounds = [
        event for event in read_jsonlines(home / "events.jsonl") if event["event"] == "RoundDone"
    ]
    late = [event for event in rounds if event["time"] > rounds[0]["time"] + SETTLING]
    return [event["report"]["external_informative"] > 0 for event in late]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.timeout(1800)
def test_nodes_on_one_machine_share_in_many_rounds_from_the_tenth_second_on(
    tmp_path: Path, count: int
) -> None:
    homes = [tmp_path / str(node) for node in range(count)]
    peers: list[str] = []
    nodes = []
    try:
        for node, home in enumerate(homes):
            flags = [
                "--home",
                home,
                "--swarm",
                tmp_path.name,
                "--seed",
                node,
                *(["--peers", *peers] if peers else []),
            ]
            # A pipe that nobody reads would fill.
            nodes.append(started("run", *flags, loaded=True, stdout=subprocess.DEVNULL))
            until(lambda home=home: (home / "addresses").exists(), 300.0, "an address")
            peers = [(homes[0] / "addresses").read_text().splitlines()[0]]
        until(lambda: all(len(shares(home)) >= 10 for home in homes), 600.0, "ten rounds of each")
        until(lambda: all(ask(home)["healthy"] for home in homes), what="healthy nodes")
        answers = [ask(home) for home in homes]
    finally:
        for process in nodes:
            process.terminate()
        for process in nodes:
            process.wait(PATIENCE)
    for home, answer in zip(homes, answers, strict=True):
        found = shares(home)
        assert sum(found) / len(found) >= SHARED
        assert answer["training"]["shared_rounds"] > 0.0


@pytest.mark.slow
def test_a_paused_node_rests_is_healthy_and_goes_on(tmp_path: Path) -> None:
    ended("home", "id", "--home", tmp_path)
    assert "the next one will rest" in ended("pause", "--home", tmp_path).stdout
    command = ("run", "--home", tmp_path, "--network.no-enabled", "--max-rounds", "2")
    with killed_in_the_end(started(*command, loaded=True)) as node:
        until(lambda: "resting" in (ask(tmp_path).get("training") or {}), 300.0, "resting")
        shown = ended("status", "--home", tmp_path, "--json")
        answer = json.loads(shown.stdout)
        assert shown.returncode == 0 and answer["healthy"]
        assert (
            "swarm-node resume" in answer["training"]["resting"]
            and "round" not in answer["training"]
        )
        ended("resume", "--home", tmp_path)
        output, _ = node.communicate(timeout=ENDS_SECONDS)
    assert node.returncode == 0
    for words in (
        "resting: paused by",
        "continuing",
        "stopped after 2 rounds",
        "alone: the network is off",
    ):
        assert words in output
