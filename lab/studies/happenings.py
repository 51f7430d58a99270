"""Events in a swarm of `lab.studies.hundred`: bootstrap nodes die, newer cards arrive, newcomers
join. The study calls each one's `look` again and again, with the seconds of the run. Nodes are the
`Node` of that study.
"""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil

from lab.benchmarks import network
from lab.studies import guests
from protocol.card import Signed, read, swarm_of
from swarm_node.commands import status
from swarm_node.home.folder import load_identity
from swarm_node.network.process.keeper import CARDS_FILE, keep_cards

PORT, INSIDE = 31330, "STUDIES_INSIDE"


def address(number: int) -> str:
    """The address of the node with this number, in a /24 of its own."""
    return f"45.{16 + number // 250}.{number % 250 + 1}.1"


def in_namespace(module: str) -> None:
    """Starts this command again in a network namespace where all of 45.0.0.0/8 is local. It does so
    by exec, not as a child, so that a Ctrl-C reaches the process that has to end all others.
    """
    if INSIDE in os.environ:
        subprocess.run(
            ["sh", "-c", "ip link set lo up && ip route add local 45.0.0.0/8 dev lo"], check=True
        )
        return
    unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    os.execvpe(
        "unshare",
        [*unshare, sys.executable, "-m", module, *sys.argv[1:]],
        {**os.environ, INSIDE: "1"},
    )


class Bootstrap:
    """Bootstrap nodes of a swarm with cards; all are killed at once."""

    def __init__(
        self,
        stack: ExitStack,
        work: Path,
        places: Sequence[tuple[str, Sequence[str]]],
        death: float = math.inf,
        cards: int = 1,
    ) -> None:
        """`places`: the address of each node, and the words that begin a command there. `death`:
        seconds of the run. `cards`: how many cards there will be.
        """
        self._death = death
        homes = [work / f"bootstrap{number}" for number in range(len(places))]
        for home in homes:
            home.mkdir()
        named = [
            (host, load_identity(home).peer_id)
            for (host, _), home in zip(places, homes, strict=True)
        ]
        self.addresses = [f"/ip4/{host}/tcp/{PORT}/p2p/{peer}" for host, peer in named]
        self.chain = network.cards(cards, int(time.time()), self.addresses)
        first = read(self.chain[0])
        assert isinstance(first, Signed), first
        self.swarm, self._running = swarm_of(first.card), list[subprocess.Popen[bytes]]()
        for home, (host, inside) in zip(homes, places, strict=True):
            keep_cards(home / CARDS_FILE, self.chain[:1], time.time())
            line = [
                "swarm_node.commands.cli",
                "bootstrap",
                "--home",
                home,
                "--host",
                host,
                "--port",
                PORT,
            ]
            self._running.append(
                stack.enter_context(guests.running(["-m", *line], home, inside=inside))
            )
        for home in homes:
            guests.address(home)

    def look(self, now: float) -> None:
        while now >= self._death and self._running:
            root = psutil.Process(self._running.pop().pid)
            for each in [*root.children(recursive=True), root]:
                with suppress(psutil.Error):
                    each.kill()


class Cards:
    """Newer cards. Each is given to the first node alone, as by its signers."""

    def __init__(
        self, chain: Sequence[bytes], times: Sequence[float], nodes: Sequence[Any]
    ) -> None:
        self._chain, self._times, self._nodes, self._looked = chain, times, nodes, 0.0
        # Of each card: node number -> when it had the card
        self._seen: list[dict[int, float]] = [{} for _ in times]

    def look(self, now: float) -> None:
        if now < self._looked + 1.0:
            return
        self._looked = now
        given = sum(time <= now for time in self._times)
        if given and len(self._seen[given - 1]) == 0:
            keep_cards(self._nodes[0].home / CARDS_FILE, self._chain[: given + 1], time.time())
        for node in self._nodes:
            number = (node.home / CARDS_FILE).read_bytes().count(b"\n")
            for seen in self._seen[: number - 1]:
                seen.setdefault(node.number, now)

    def result(self) -> list[dict[str, Any]]:
        """For each card: how many nodes took it; seconds until 95 % and all nodes had it, None for
        never.
        """
        found = []
        for given, seen in zip(self._times, self._seen, strict=True):
            took, every = sorted(each - given for each in seen.values()), len(self._nodes)
            most = {
                name: math.ceil(share * every) for name, share in (("95 %", 0.95), ("all", 1.0))
            }
            late = {
                name: took[count - 1] if count <= len(took) else None
                for name, count in most.items()
            }
            found.append({"given": given, "followed": len(took), **late})
        return found


class Newcomers:
    """Newcomers that join by codes of members, two by each member. Half are behind firewalls."""

    def __init__(
        self,
        times: Sequence[float],
        nodes: Sequence[Any],
        join: Callable[[int, str], tuple[Any, float]],
    ) -> None:
        """`join` takes a newcomer's number, from 0, and a code. It returns the new node and the
        seconds it took.
        """
        self._times, self._nodes, self._join, self._rng = times, nodes, join, Random(0)
        self._pool, self._inviter = ThreadPoolExecutor(4), nodes[0]
        self.coming: list[Future[tuple[Any, float]]] = []

    def look(self, now: float) -> None:
        number = len(self.coming)
        if number >= len(self._times) or now < self._times[number]:
            return
        if number % 2 == 0 or not self._inviter.there:
            self._inviter = self._rng.choice([node for node in self._nodes if node.there])
        self.coming.append(self._pool.submit(self._enter, number, self._inviter.home))

    def _enter(self, number: int, home: Path) -> tuple[Any, float]:
        return self._join(number, status.ask(home)["invitation"])

    def result(self) -> dict[str, Any]:
        """Seconds of each newcomer that joined, from its start to its first exchange; why the
        others failed.
        """
        self._pool.shutdown()
        failed = [str(each.exception()) for each in self.coming if each.exception()]
        seconds = sorted(each.result()[1] for each in self.coming if not each.exception())
        return {"came": len(self.coming), "in": len(seconds), "seconds": seconds, "failed": failed}


def firewall(host: str) -> None:
    """Drops connections to this address that others begin."""
    new = ("-m", "conntrack", "--ctstate", "NEW", "-j", "DROP")
    subprocess.run(["iptables", "-A", "INPUT", "-d", host, *new], check=True)
