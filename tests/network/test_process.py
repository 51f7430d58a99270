"""Nodes with real network processes: they find and serve each other beside dead processes, liars
and missing peers.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from protocol import codec, limits, wire
from protocol.identity import Identity
from swarm_node.home.folder import load_or_create
from swarm_node.network.backend import Caller, Handler
from swarm_node.network.process.keeper import load_memory
from swarm_node.network.process.runner import DIAL_SECONDS
from swarm_node.network.process.service import free_port
from tests.commands import killed_in_the_end, started
from tests.groups import group
from tests.network.members import (
    SWARM,
    Member,
    black_hole,
    closing,
    config,
    hostile,
    received_since,
    rounds,
)
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.network
BOOTSTRAP = ("bootstrap", "--host", "127.0.0.1", "--no-mdns")


def pair(folder: Path, **options: float) -> tuple[Member, Member]:
    first = Member(folder / "a", config(**options))
    return first, Member(folder / "b", config(first.addresses(), **options))


def test_what_dies_comes_back_and_sharing_goes_on(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    with closing(a, b):
        rounds(
            [a, b],
            lambda: received_since(a, b.id, 0) and received_since(b, a.id, 0),
            what="sharing",
        )
        before, process = a.addresses(), a.process()
        assert process.memory_info().rss < 90e6
        assert not any("torch" in Path(each.path).name for each in process.memory_maps())

        daemon = process.children()[0]
        os.kill(daemon.pid, signal.SIGKILL)
        now = a.round
        rounds(
            [a, b],
            lambda: received_since(a, b.id, now) and received_since(b, a.id, now),
            what="sharing after p2pd died",
        )
        assert a.addresses() == before  # peers find it at the same addresses
        assert a.view()["processes"] == 1 and any("p2pd ended" in line for line in a.said)

        process = a.process()
        os.kill(process.pid, signal.SIGKILL)
        now = a.round
        rounds(
            [a, b],
            lambda: received_since(a, b.id, now) and received_since(b, a.id, now),
            "sharing after its death",
        )
        assert a.addresses() == before and a.view()["processes"] == 2
        assert not psutil.pid_exists(daemon.pid)
        assert any("training continues" in line for line in a.said)
        # Its own earlier announcements are no twin's
        assert not any("another node uses the identity" in line for line in a.said)


def test_two_black_holes_before_a_live_entry_cost_no_time(tmp_path: Path) -> None:
    a = Member(tmp_path / "a", config())
    with closing(a), black_hole() as first, black_hole() as second:
        b = Member(tmp_path / "b", config([first, second, *a.addresses()]))
        with closing(b):
            a.step()
            b.step()
            views: list[dict[str, Any]] = []

            def exchanged() -> bool:
                views.append(b.view())
                return bool(views[-1]["counters"].get("exchange bytes in"))

            until(exchanged, what="the first exchange")
            # One after the other, the two would have taken longer
            assert views[-1]["uptime"] < 2 * DIAL_SECONDS - 1
            states = {each["addresses"][0]: each["state"] for each in b.view()["bootstrap_nodes"]}
            assert (
                states[a.addresses()[0]] == "connected"
                and states[first] != "connected" != states[second]
            )


def test_without_any_entry_it_goes_on_alone_and_joins_when_one_comes_up(tmp_path: Path) -> None:
    identity, port = Identity.create(), free_port()
    entry = f"/ip4/127.0.0.1/tcp/{port}/p2p/{identity.peer_id}"
    b = Member(tmp_path / "b", config([entry]))
    with closing(b):
        until(
            lambda: any(each["failures"] > 1 for each in b.view().get("bootstrap_nodes", [])),
            what="a failed dial",
        )
        began = time.monotonic()
        for _ in range(100):  # a millisecond each, unless the node waits for a peer
            b.step()
        assert time.monotonic() - began < 10.0
        assert b.received == []
        a = Member(tmp_path / "a", config(port=port), identity)
        with closing(a):
            rounds([a, b], lambda: received_since(b, a.id, 0), what="joining")


def test_a_peer_known_from_last_time_lets_a_node_in(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    with closing(a):
        with closing(b):
            rounds([a, b], lambda: received_since(b, a.id, 0), what="sharing")
        assert a.id in load_memory(b.home, SWARM).peers
        again = Member(b.home, config(), b.identity)
        with closing(again):
            now = a.round
            rounds([a, again], lambda: received_since(again, a.id, now), what="sharing again")
            assert received_since(a, again.id, 0)


def lying(protocol: str, honest: Handler) -> Handler:
    """Serves another group than the one asked for."""
    author = Identity.create()

    async def answer(caller: Caller, request: bytes) -> bytes:
        if protocol != wire.PULL:
            return await honest(caller, request)
        return wire.encode_groups([codec.seal(group(author.peer_id, 1, 0), author, SWARM)])

    return answer


def oversized(protocol: str, honest: Handler) -> Handler:
    async def answer(caller: Caller, request: bytes) -> bytes:
        return (
            bytes(2 * limits.MAX_PULL_REPLY_BYTES)
            if protocol == wire.PULL
            else await honest(caller, request)
        )

    return answer


def slow(protocol: str, honest: Handler) -> Handler:
    async def answer(caller: Caller, request: bytes) -> bytes:
        await asyncio.sleep(4.0)
        return await honest(caller, request)

    return answer


def silent(protocol: str, honest: Handler) -> Handler:
    async def answer(caller: Caller, request: bytes) -> bytes:
        if protocol == wire.PULL:
            await asyncio.Event().wait()
        return await honest(caller, request)

    return answer


def test_hostile_peers_keep_no_honest_ones_apart(tmp_path: Path) -> None:
    a, b = pair(tmp_path)
    with closing(a, b), ExitStack() as stack:
        liar, big, *_ = [
            stack.enter_context(hostile(a.addresses(), each))
            for each in (lying, oversized, slow, silent)
        ]

        def caught() -> bool:
            """By either node: a peer that one node has banned is not named to the other, which may
            never meet it.
            """
            counters = [each.view().get("counters", {}) for each in (a, b)]
            return all(
                any(each.get(fault, 0) > 0 for each in counters)
                for fault in ("pull: hash mismatch", "pull failed: reply too big")
            )

        try:
            rounds([a, b], caught, what="catching them")
        except AssertionError as late:
            raise AssertionError([a.view(), b.view()]) from late  # shows what was counted instead
        now = a.round
        rounds(
            [a, b],
            lambda: received_since(a, b.id, now) and received_since(b, a.id, now),
            what="sharing",
        )
        seen = [{peer["peer"]: peer for peer in each.view()["peers"]} for each in (a, b)]
        assert any(known[liar]["state"] == "banned" for known in seen if liar in known)
        assert any(known[big]["success"] < 1.0 for known in seen if big in known)
        assert seen[0][b.id]["state"] == seen[1][a.id]["state"] == "ok"
        assert not any(each.author in (liar, big) for each in a.received + b.received)


def test_two_nodes_with_one_identity_are_told_and_the_others_go_on(tmp_path: Path) -> None:
    a, b = pair(tmp_path, exchange_seconds=1.0)
    twin = Member(tmp_path / "twin", config(a.addresses(), exchange_seconds=1.0), b.identity)
    with closing(a, b, twin):
        rounds(
            [a, b, twin],
            lambda: any("another node uses the identity" in line for line in b.said + twin.said),
            what="notice",
        )
        now = a.round
        rounds(
            [a, b, twin],
            lambda: received_since(a, b.id, 0) and received_since(b, a.id, now),
            what="sharing",
        )


def test_a_port_that_is_taken_is_named_and_another_one_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        a = Member(tmp_path / "a", config(port=port))
        with closing(a):
            assert f"/tcp/{port}/" not in a.addresses()[0]
            a.step()
            assert any(f"port {port}/tcp: another program uses it" in line for line in a.said)


def test_a_bootstrap_node_introduces_others_on_little_memory_and_leaves(tmp_path: Path) -> None:
    command = (*BOOTSTRAP, "--home", tmp_path / "entry", "--port", 0, "--swarm", SWARM)
    with killed_in_the_end(started(*command, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.endswith(load_or_create(tmp_path / "entry" / "identity.key").peer_id)
        a, b = (Member(tmp_path / name, config([address])) for name in "ab")
        with closing(a, b):
            rounds(
                [a, b],
                lambda: received_since(a, b.id, 0) and received_since(b, a.id, 0),
                what="sharing",
            )
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
        assert sum(each.memory_info().rss for each in family) < 200e6  # torch alone would be more
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_a_network_process_goes_with_its_trainer(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom tests.network.members import Member, "
        "config\n"
        "member = Member(Path(sys.argv[1]), config())\n"
        "print(member.process().pid, *(child.pid for child in member.process().children()), "
        "flush=True)\n"
        "time.sleep(600)\n"
    )
    trainer = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout is not None
    pids = [int(word) for word in trainer.stdout.readline().split()]
    assert len(pids) == 2
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    until(lambda: not any(map(psutil.pid_exists, pids)), what="the end of the network")
