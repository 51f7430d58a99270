"""Homes that sleep: how soon nodes are back in the swarm after a sleep, and whether a process was
killed for it.

    python -m lab.studies.sleeping --json    # as root; docs/results/sleeping.md

A public node and a bootstrap node stay awake. Beside them lives a home: the part of a node that a
trainer has of its network, with a real network process and a real p2pd, in a network of its kind.
All its processes are stopped by SIGSTOP for some seconds, as a closed lid stops them, and go on
after SIGCONT. For the kind `moved` the home also gets another address while it sleeps. The home is
back once both have something new of each other: a group that the awake node made after the home
woke has come to the home, and the other way round.
"""

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from lab.benchmarks import command, network
from lab.benchmarks.internet.namespaces import Internet, Namespace
from lab.benchmarks.waiting import until
from protocol.messages import Round
from swarm_node.home.folder import load_identity
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process import control
from swarm_node.network.process.messages import Rules
from swarm_node.settings import NetworkConfig

SWARM = "sleeping"
ROUND_SECONDS = 0.5
WANTED = 10.0  # seconds in which a home is to be back
PATIENCE = 60.0  # seconds after which it is not awaited any more
HERE: tuple[str, ...] = ()  # words before a command: none, on this machine
ANYWHERE = "0.0.0.0"


def live(home: Path, host: str, peers: Sequence[str], backend: str) -> None:
    """Lives as one home, until it is killed: publishes a group each round, and prints a line with
    what has come.
    """
    options = {"host": host, "mdns": False, "peers": tuple(peers), "backend": backend}
    config = NetworkConfig.model_validate({**options, "exchange_seconds": 2.0})
    rules = Rules(swarm=SWARM, environments={"benchmark": ("1", {"noise": ("plain",)})})
    identity = load_identity(home)
    node = RemoteNetwork(
        identity, home, config, rules, network.WANTED, network.progress, today=time.time
    )
    node.start()
    number = 0
    while True:
        groups = [network.group(SWARM, identity, number, 0)]
        node.publish(groups, Round(number))
        received = [[each.author, each.round] for each in node.collect(Round(number))]
        said = {"peer": identity.peer_id, "round": number, "received": received}
        lines = [text for text, _ in node.lines()]
        print(json.dumps({**said, "lines": lines, "addresses": node.addresses}), flush=True)
        number += 1
        time.sleep(ROUND_SECONDS)


class Home:
    """A home in a process of its own, and what it has said."""

    def __init__(
        self,
        home: Path,
        peers: Sequence[str] = (),
        inside: Sequence[str] = HERE,
        host: str = "",
        backend: str = "hivemind",
    ) -> None:
        self.home = home
        home.mkdir()
        self.peer, self.round, self.lines = "", -1, list[str]()
        self.received: dict[str, int] = {}  # author -> the newest round of which a group has come
        self.addresses: tuple[str, ...] = ()
        asked = ["--home", str(home), "--host", host or "127.0.0.1"]
        asked += ["--backend", backend, "--peers", *peers]
        self._process = subprocess.Popen(
            [*inside, sys.executable, "-m", "lab.studies.sleeping", *asked],
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            for author, number in said["received"]:
                self.received[author] = max(number, self.received.get(author, -1))
            self.lines += said["lines"]
            self.addresses = tuple(said["addresses"])
            self.peer, self.round = said["peer"], said["round"]

    def family(self) -> list[psutil.Process]:
        """Its processes, p2pd included."""
        head = psutil.Process(self._process.pid)
        return [head, *head.children(recursive=True)]

    def signal(self, number: int) -> None:
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def view(self) -> dict[str, Any]:
        """What its network process says of itself."""
        return dict((control.ask(self.home) or {}).get("network") or {})

    def kill(self) -> None:
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


def sharing(one: Home, other: Home) -> Callable[[], bool]:
    """Whether each of the two has a group that the other made from now on."""
    since = one.round + 1, other.round + 1
    return lambda: (
        one.received.get(other.peer, -1) >= since[1]
        and other.received.get(one.peer, -1) >= since[0]
    )


def slept(
    home: Home, awake: Home, seconds: float, meanwhile: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Lets the home sleep for so many seconds. Returns how soon it was back, and what became of its
    processes.
    """
    before = {process.pid for process in home.family()}
    home.signal(signal.SIGSTOP)
    time.sleep(seconds / 2)
    meanwhile()
    time.sleep(seconds / 2)
    together = sharing(home, awake)
    began = time.monotonic()
    home.signal(signal.SIGCONT)
    back: float | None = None
    with suppress(TimeoutError):
        until(together, PATIENCE, "sharing after a sleep")
        back = time.monotonic() - began
    view = until(home.view, PATIENCE, "a word of the network process")
    return {
        "slept": seconds,
        "back": back,
        "network processes": view.get("processes"),
        "ended": len(before - {process.pid for process in home.family()}),
    }


class Kind:
    """A kind of network in which a home lives."""

    def __init__(
        self,
        place: Callable[[Internet], Namespace],
        ipv6: bool = False,
        meanwhile: Callable[[Internet, Namespace], object] = lambda internet, place: None,
    ) -> None:
        """`ipv6`: of all nodes, without IPv4. `meanwhile`: what happens to the network while the
        home sleeps.
        """
        self.place, self.ipv6, self.meanwhile = place, ipv6, meanwhile


NUMBERS = count(200)  # of addresses to move to
KINDS = {
    "public": Kind(lambda internet: internet.public("home")),
    "NAT": Kind(lambda internet: internet.behind_nat("home")),
    "CGNAT": Kind(lambda internet: internet.behind_carrier("home")),
    "IPv6 alone": Kind(lambda internet: internet.public("home", ipv6=True), ipv6=True),
    "moved": Kind(
        lambda internet: internet.public("home"),
        meanwhile=lambda internet, place: internet.move(place, next(NUMBERS)),
    ),
}


@contextmanager
def beside(folder: Path, internet: Internet, ipv6: bool) -> Iterator[tuple[Home, list[str]]]:
    """An awake node and a bootstrap node, both public, and the addresses of the second."""
    place = internet.public("door", ipv6)
    line = ["bootstrap", "--home", str(folder / "door"), "--swarm", SWARM, "--no-mdns"]
    door = place.popen([sys.executable, "-m", "swarm_node", *line], stdout=subprocess.PIPE)
    assert door.stdout is not None
    entries = [door.stdout.readline().strip() for _ in range(2)]
    threading.Thread(target=door.stdout.read, daemon=True).start()
    entries = [each for each in entries if place.address in each]
    awake = Home(folder / "awake", entries, internet.public("awake", ipv6).inside, ANYWHERE)
    try:
        yield awake, entries
    finally:
        awake.kill()
        door.terminate()
        door.wait()


def of_kind(
    kind: Kind, seconds: Sequence[float], backend: str = "hivemind"
) -> list[dict[str, Any]]:
    """What became of a home in such a network after each of these sleeps, one after another."""
    with (
        TemporaryDirectory(prefix="sleeping-") as folder,
        Internet() as internet,
        beside(Path(folder), internet, kind.ipv6) as (awake, entries),
    ):
        place = kind.place(internet)
        home = Home(Path(folder) / "home", entries, place.inside, ANYWHERE, backend)
        try:
            until(lambda: home.peer and awake.peer, PATIENCE, "the start")
            until(sharing(home, awake), 2 * PATIENCE, "sharing before a sleep")
            change = partial(kind.meanwhile, internet, place)
            return [slept(home, awake, each, change) for each in seconds]
        finally:
            home.kill()


def main() -> None:
    parser = command.parser("lab.studies.sleeping", __doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seconds", nargs="+", type=float, default=[60.0, 180.0], help="of sleep")
    parser.add_argument("--backend", default="hivemind", help="of the home that sleeps")
    for name in ("--home", "--host"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--peers", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.home:
        live(Path(options.home), options.host, options.peers, options.backend)
    found = {name: of_kind(KINDS[name], options.seconds, options.backend) for name in options.kinds}
    lines = [
        [name, *(str(value if value is not None else "not") for value in each.values())]
        for name, sleeps in found.items()
        for each in sleeps
    ]
    command.show(["home", "slept, s", "back after, s", "network processes", "ended"], lines)
    late = [each for sleeps in found.values() for each in sleeps if not is_well(each)]
    command.finish(options, {"homes": found, "failures": late})


def is_well(after: Mapping[str, Any]) -> bool:
    """Whether the home was back in time, and nobody was killed for having slept."""
    in_time = after["back"] is not None and after["back"] <= WANTED
    return in_time and after["network processes"] == 1


if __name__ == "__main__":
    main()
