"""Nodes on one machine as people start them at home: they share in most rounds, and say so."""

import json
from pathlib import Path

import pytest

from swarm_node.commands.status import ask
from swarm_node.telemetry.jsonlines import read_jsonlines
from tests.commands import ended, started
from tests.waiting import until

SETTLING = 10.0  # seconds after a node's first round
SHARED = 0.8  # of the rounds behind that, at least


def shares(home: Path) -> list[bool]:
    """Of each round behind the settling: whether it trained on external groups."""
    if not (home / "events.jsonl").exists():
        return []
    rounds = [event for event in read_jsonlines(home / "events.jsonl") if event["event"] == "RoundDone"]
    late = [event for event in rounds if event["time"] > rounds[0]["time"] + SETTLING]
    return [event["report"]["external_informative"] > 0 for event in late]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_nodes_on_one_machine_share_in_most_rounds_from_the_tenth_second_on(tmp_path: Path, count: int) -> None:
    homes = [tmp_path / str(node) for node in range(count)]
    peers: list[str] = []
    nodes = []
    try:
        for node, home in enumerate(homes):
            flags = ["--home", home, "--swarm", tmp_path.name, "--seed", node, *(["--peers", *peers] if peers else [])]
            nodes.append(started("run", *flags))
            until(lambda home=home: (home / "addresses").exists(), 90.0, "an address")
            peers = [(homes[0] / "addresses").read_text().splitlines()[0]]
        until(lambda: all(len(shares(home)) >= 40 for home in homes), 240.0, "forty rounds of each")
        answers = [ask(home) for home in homes]
    finally:
        for process in nodes:
            process.terminate()
        for process in nodes:
            process.communicate(timeout=60)
    for home, answer in zip(homes, answers, strict=True):
        found = shares(home)
        assert sum(found) / len(found) >= SHARED
        assert answer["healthy"] and answer["training"]["shared_rounds"] > 0.5


@pytest.mark.slow
def test_a_paused_node_rests_is_healthy_and_goes_on(tmp_path: Path) -> None:
    ended("init", "--home", tmp_path)
    assert "the next one will rest" in ended("pause", "--home", tmp_path).stdout
    node = started("run", "--home", tmp_path, "--network.no-enabled", "--max-rounds", "2")
    try:
        until(lambda: "resting" in (ask(tmp_path).get("training") or {}), 90.0, "resting")
        shown = ended("status", "--home", tmp_path, "--json")
        answer = json.loads(shown.stdout)
        assert shown.returncode == 0 and answer["healthy"]
        assert "swarm-node resume" in answer["training"]["resting"]
        assert "round" not in answer["training"]
        ended("resume", "--home", tmp_path)
        output, _ = node.communicate(timeout=90)
    finally:
        node.kill()
    assert node.returncode == 0
    assert "resting: told to" in output and "going on" in output and "stopped after 2 rounds" in output
