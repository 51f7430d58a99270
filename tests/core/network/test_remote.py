"""The trainer's side, against stand-ins for the network process that die, hang, flood, lie or
behave.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from protocol import codec
from protocol.identity import Identity
from protocol.messages import Episode, Round
from swarm_node.network import client as remote
from swarm_node.network.client import INBOX_FULL, RemoteNetwork
from swarm_node.network.process import control, supervisor
from swarm_node.network.process.messages import Rules
from swarm_node.rollouts.groups import Group
from swarm_node.settings import NetworkConfig
from tests.groups import KIND, external, group
from tests.waiting import until

OWN, OTHER = (Identity.from_seed_bytes(bytes([n]) * 32) for n in (1, 2))
STAND_IN = str(Path(__file__).with_name("stand_in.py"))


@contextmanager
def network(
    home: Path, way: str, progress: Callable[[], dict[str, int]] = dict
) -> Iterator[RemoteNetwork]:
    rules = Rules(
        swarm="test",
        environments={
            KIND["environment"]: (KIND["version"], {KIND["dataset"]: (KIND["config_id"],)})
        },
    )
    command = (sys.executable, STAND_IN, way, str(home / "lives"))
    made = RemoteNetwork(OWN, home, NetworkConfig(), rules, 4, progress, command)
    made.start()
    try:
        yield made
    finally:
        made.close()


def lines_of(made: RemoteNetwork, known: list[str]) -> list[str]:
    known += [text for text, _ in made.lines()]
    return known


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_RESTART", 0.02)
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.3)


def test_publishing_and_collecting_go_through_the_process(tmp_path: Path) -> None:
    with network(tmp_path, "echo") as made:
        made.publish([group(OTHER.peer_id)], Round(3))
        received: list[Group] = []
        until(lambda: received.extend(made.collect(Round(3))) or received)
        assert received == [external(group(OTHER.peer_id))]
        assert made.rejections() == {}
        made.verdict(received[0], useful=True)
        until(lambda: made.connected == 0 and (tmp_path / "lives").exists())


def test_what_came_at_once_is_handed_out_over_several_rounds(tmp_path: Path) -> None:
    with network(tmp_path, "echo") as made:
        made.publish([group(OTHER.peer_id, index=index) for index in range(20)], Round(0))
        until(lambda: made._received == 20)
        handed = [[each.question.index for each in made.collect(Round(0))] for _ in range(6)]
        assert handed == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
            [8, 9, 10, 11],
            [12, 13, 14, 15],
            [16, 17, 18, 19],
            [],
        ]


def test_a_group_too_big_to_travel_is_counted(tmp_path: Path) -> None:
    large = group(OWN.peer_id).model_copy(
        update={"episodes": tuple(Episode.of(text="x" * 16_000, ended=True) for _ in range(8))}
    )
    with network(tmp_path, "echo") as made:
        made.publish([large], Round(0))
        assert made.rejections() == {remote.UNSENT: 1}


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_the_new_one_knows_what_the_old_one_did(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    with network(tmp_path, "echo") as made:
        made.publish([], Round(5))
        until(lambda: "life 0 round 5" in lines_of(made, said))
        until(lambda: made._memory.port == 1)
        os.kill(int((tmp_path / "lives.pid").read_text()), signal.SIGKILL)
        until(lambda: "life 1 round 5" in lines_of(made, said))
        assert "life 1 remembers 0" in said and any("training continues" in line for line in said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "words"),
    [("dies", "stand-in life"), ("nonsense", "nonsense"), ("no group", "no group: malformed")],
)
def test_a_process_that_fails_again_and_again_costs_the_trainer_nothing(
    tmp_path: Path, way: str, words: str
) -> None:
    said: list[str] = []
    with network(tmp_path, way) as made:
        until(
            lambda: (
                len((tmp_path / "lives").read_text()) >= 3
                if (tmp_path / "lives").exists()
                else False
            )
        )
        began = time.monotonic()
        for number in range(500):
            made.publish([], Round(number))
            assert made.collect(Round(number)) == []
        assert time.monotonic() - began < 20.0
        until(lambda: words in " ".join(lines_of(made, said)))


@pytest.mark.slow
def test_a_process_that_hangs_is_killed_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SILENCE_SECONDS", 0.3)
    said: list[str] = []
    with network(tmp_path, "deaf") as made:
        until(lambda: "said nothing" in " ".join(lines_of(made, said)))


@pytest.mark.slow
def test_a_process_that_does_not_listen_never_holds_up_a_publisher(tmp_path: Path) -> None:
    with network(tmp_path, "deaf") as made:
        until(lambda: (tmp_path / "lives").exists())
        began = time.monotonic()
        long = group(OWN.peer_id).model_copy(
            update={"episodes": (Episode.of(text="x" * 8000, ended=True),) * 2}
        )
        for number in range(500):
            made.publish([long], Round(number))
        assert time.monotonic() - began < 20.0
        until(lambda: made._supervisor.channel and made._supervisor.channel.dropped > 100)


@pytest.mark.slow
def test_a_flood_keeps_the_newest_and_is_counted(tmp_path: Path) -> None:
    with network(tmp_path, "floods") as made:
        until(lambda: made.rejections().get(INBOX_FULL, 0) > 100)
        assert len(made._inbox) <= remote.INBOX_GROUPS
        began = time.monotonic()
        assert made.collect(Round(0))
        assert time.monotonic() - began < 20.0
        assert made.rejections()["wrong seed"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["echo", "stays", "dies", "deaf", "nonsense"])
def test_closing_ends_the_process_soon_whatever_it_does(tmp_path: Path, way: str) -> None:
    with network(tmp_path, way):
        until(lambda: (tmp_path / "lives.pid").exists() and (tmp_path / "lives.pid").read_text())
        began = time.monotonic()
    assert time.monotonic() - began < 20.0
    assert not psutil.pid_exists(int((tmp_path / "lives.pid").read_text()))


def test_a_running_node_can_be_asked_and_so_can_one_whose_network_is_down(tmp_path: Path) -> None:
    with network(tmp_path, "echo", lambda: {"round": 8}) as made:
        answer: dict[str, Any] = {}
        until(
            lambda: (
                answer.update(control.ask(tmp_path) or {}) or "life" in answer.get("network", ())
            )
        )
        assert answer["training"] == {"round": 8, "received": 0, "rejected": {}}
        told = {"resting": False, "leaving": False}
        assert answer["network"] == {
            "enabled": True,
            "processes": 1,
            "running": True,
            "life": 0,
            **told,
        }
    assert control.ask(tmp_path) is None
    assert made.collect(Round(0)) == []
    made.publish([], Round(9))  # after the end a round is lost without an error


def test_a_node_that_status_cannot_reach_trains_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "control.sock").mkdir()
    said: list[str] = []
    with network(tmp_path, "echo") as made:
        until(lambda: "status cannot reach this node" in " ".join(lines_of(made, said)))
        until(lambda: "life 0 remembers 0" in lines_of(made, said))


def test_the_hash_reported_back_is_the_one_the_group_travels_under(tmp_path: Path) -> None:
    envelope = codec.seal(group(OTHER.peer_id), OTHER, "test")
    sent: list[object] = []
    with network(tmp_path, "echo") as made:
        made._send = sent.append
        made.verdict(external(group(OTHER.peer_id)), useful=False)
        until(lambda: sent)
    (frame,) = sent
    assert frame.content_hash == codec.content_hash(codec.split(envelope)[1])
    assert (frame.author, frame.outcome) == (OTHER.peer_id, "uninformative")
