"""Scripts in a swarm, over the real network."""

from pathlib import Path
from typing import Any

import pytest

from swarm_node import NodeConfig, Swarm, join
from tests.waiting import until

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(600)]


def joined(home: Path, *peers: str) -> Swarm:
    network: dict[str, Any] = {
        "host": "127.0.0.1",
        "mdns": False,
        "exchange_seconds": 2.0,
        "peers": peers,
    }
    values = {
        "home": home,
        "environment": {"tasks": ["gcd/tiny"]},
        "network": network,
        "round": {"external_groups": 2},
    }
    return join(NodeConfig.model_validate(values))


def publish_right_ones(swarm: Swarm) -> int:
    questions = swarm.questions(8)
    completed = {}
    for question in questions:
        rewards = swarm.score(question, [str(number) for number in range(1, 60)])
        assert isinstance(rewards, tuple)
        completed[question] = [str(1 + rewards.index(1.0)), "x"]
    return len(swarm.publish(completed))


def test_a_script_that_finds_nothing_informative_goes_on_getting_external_groups(
    tmp_path: Path,
) -> None:
    with joined(tmp_path / "finder") as finder:
        file = tmp_path / "finder" / "addresses"
        until(lambda: file.exists() and "/tcp/" in file.read_text(), what="an address")
        with joined(tmp_path / "seeker", *file.read_text().split()) as seeker:
            got = 0

            def more_than_a_round_wants() -> bool:
                nonlocal got
                assert publish_right_ones(finder) == 8
                assert (
                    seeker.publish({question: ["x", "y"] for question in seeker.questions(2)}) == []
                )
                got += len(seeker.collect())
                return got > 4 * 2

            until(more_than_a_round_wants, what="external groups of more than four rounds")
