"""A hundred real network processes for an hour, a tenth of them hostile: does every honest node go
on receiving?

    # as root, for a network namespace; docs/results/hundred.md
    python -m lab.studies.hundred --json
    python -m lab.studies.hundred --quick       # eight processes for three minutes
    python -m lab.studies.hundred --nodes 50 --minutes 70 --lost-at 10 --trace FILE
    python -m lab.studies.hundred --nodes 50 --minutes 20 --hostile 0 --cards 4 9 14

Each node is a network process with its daemon, as `swarm-node run` starts them, on an address in a
/24 of its own; a stand-in for the trainer publishes 9 groups of 10 KB a round and collects 4
external groups. Nodes come and go by a recorded trace (--trace, see `lab.studies.churn`); without
it all stay. Half of those that go are killed. A tenth of the processes are hostile
(`lab.studies.attackers`). At the minute --lost-at all bootstrap nodes are killed; from then on
newcomers join by codes of members. At each minute that --cards lists, the first node is given a
newer card of the swarm.
Each card replaces one signer of the card before it.

A group is fresh if its author published it in this round or one of the three before. The study asks
for each honest node and each minute whether a fresh group came; a minute counts if the node was
there since the minute before began.
"""

import argparse
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from lab.benchmarks import command, network
from lab.benchmarks.waiting import until
from lab.studies.attackers import Attackers, Victim, kinds_of
from lab.studies.churn import Change, recorded
from lab.studies.happenings import Bootstrap, Cards, Newcomers, address, firewall, in_namespace
from protocol import codec
from protocol.messages import Round
from swarm_node.home.folder import load_identity
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process import control
from swarm_node.network.process.keeper import CARDS_FILE, keep_cards
from swarm_node.network.process.messages import Rules
from swarm_node.settings import NetworkConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.swarm.joining import follow_card

VICTIM = "45.200.0.1"
FRESH_ROUNDS, MINUTE = 3, 60.0
OPERATORS, NEWCOMERS = 4, 12
STARTING = threading.Lock()  # nodes start one at a time, so that each knows its new process


class Node:
    """An honest node, which may be running or not."""

    def __init__(
        self, number: int, work: Path, swarm: str, config: NetworkConfig, chain: Sequence[bytes]
    ) -> None:
        """`chain`: the cards in its home, oldest first; none for a newcomer."""
        self.number, self.home, self._swarm = number, work / str(number), swarm
        self.home.mkdir()
        self._identity = load_identity(self.home)
        self._config = config.model_copy(update={"host": address(number)})
        if chain:
            keep_cards(self.home / CARDS_FILE, chain, time.time())
        self._network: RemoteNetwork | None = None
        self._processes: frozenset[int] = frozenset()
        self.want, self.last, self.got = (
            network.WANTED,
            set[str](),
            set[str](),
        )  # groups: number asked for, last published, collected
        self.since = self.due = 0.0  # seconds of the run: when it came, when its next round is due
        self.fresh: Counter[int] = Counter()  # fresh groups by minute of the run
        # Minutes that count: it was there since the one before began
        self.minutes: set[int] = set()
        self._round = -1

    @property
    def there(self) -> bool:
        return self._network is not None

    @property
    def pids(self) -> frozenset[int]:
        """The ids of its network process."""
        return self._processes

    def come(self, now: float) -> None:
        rules = Rules(swarm=self._swarm, environments={"benchmark": ("1", {"noise": ("plain",)})})
        with STARTING:
            before = children()
            mine = self._identity, self.home, self._config, rules
            self._network = RemoteNetwork(*mine, self.want, network.progress, today=time.time)
            self._network.start()
            until(lambda: children() - before, network.START_SECONDS, "a network process")
            self._processes, self.since = children() - before, now

    def join(self, code: str) -> float:
        """Joins by a code, as `swarm-node join` does. Returns the seconds until the first
        exchange.
        """
        began, host = time.monotonic(), ("--network.host", self._config.host, "--network.no-mdns")
        asked = from_command_line(
            NodeConfig, ["--home", str(self.home), "--card", code, *host], "swarm-node join"
        )
        followed = follow_card(asked, lambda _: None, keep=True)
        assert isinstance(followed, NodeConfig)
        self._config = followed.network
        self.come(0.0)
        until(
            lambda: "exchange bytes in" in str(control.ask(self.home)),
            network.START_SECONDS,
            "an exchange",
        )
        return time.monotonic() - began

    def go(self, killed: bool) -> None:
        """Leaves with a goodbye; or, `killed`, without one, as in a power cut."""
        if self._network is None:
            return
        if killed:
            for pid in self._processes:
                with suppress(psutil.Error):
                    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
                    for each in family:
                        each.kill()
        self._network.close()
        self._network = None

    def round(self, number: int, now: float) -> None:
        """Collects the external groups that have arrived, and publishes own ones."""
        if self._network is None:
            return
        minute = int(now // MINUTE)
        if self.since <= (minute - 1) * MINUTE:
            self.minutes.add(minute)
        number = self._round = max(number, self._round + 1)
        for each in self._network.collect(Round(number)):
            self.fresh[minute] += number - each.group.round <= FRESH_ROUNDS
            self.got.add(codec.to_text(each.id))
        own = [
            network.group(self._swarm, self._identity, number, index)
            for index in range(network.GROUPS)
        ]
        self.last = {codec.to_text(codec.content_hash(codec.encode(each))) for each in own}
        self._network.publish(own, Round(number))


def children() -> frozenset[int]:
    """The ids of this process's network processes. Its other children have other names."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if "swarm_node.network.process.daemon" in child.cmdline():
                found.add(child.pid)
    return frozenset(found)


def main() -> None:
    options = parsed()
    in_namespace("lab.studies.hundred")
    result = run(options)
    command.show(["what", ""], [[name, str(value)] for name, value in result.items()])
    command.finish(options, result)


def parsed() -> argparse.Namespace:
    parser = command.parser("lab.studies.hundred", __doc__)
    parser.add_argument("--nodes", type=int, default=100, help="processes")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--round-seconds", type=float, default=20.0)
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="a recorded trace: second,node,there"
    )
    parser.add_argument(
        "--lost-at", type=float, default=0.0, help="minute at which all bootstrap nodes are lost"
    )
    parser.add_argument(
        "--cards", type=float, nargs="*", default=[], help="minutes at which there is a newer card"
    )
    parser.add_argument(
        "--hostile", type=int, help="of the nodes; a tenth, and at least one, if left out"
    )
    parser.add_argument(
        "--hostile-cpu", type=float, default=0.05, help="share of a core for each hostile process"
    )
    command.add_quick(parser)
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.minutes, options.round_seconds = 8, 3.0, 5.0
    if options.hostile is None:
        options.hostile = max(1, options.nodes // 10)
    return options


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the swarm from the first bootstrap node to the end. Returns the figures."""
    seconds, hostile = 60 * options.minutes, options.hostile
    honest = options.nodes - hostile
    changes = recorded(options.trace, honest, seconds) if options.trace else []
    with ExitStack() as stack:
        work = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-hundred-")))
        lost, places = (
            60 * options.lost_at,
            [(address(400 + number), ()) for number in range(OPERATORS)],
        )
        bootstrap = Bootstrap(stack, work, places, lost or math.inf, 1 + len(options.cards))
        config = NetworkConfig(mdns=False, peers=tuple(bootstrap.addresses))
        first = [
            Node(number, work, bootstrap.swarm, config, bootstrap.chain[:1])
            for number in range(honest)
        ]
        nodes, victim = [*first], Victim(VICTIM)
        stack.callback(victim.close)
        stack.callback(all_go, nodes)
        for node in nodes:
            node.come(0.0)
            node.due = options.round_seconds * node.number / len(nodes)
        attackers = stack.enter_context(Attackers(options.hostile_cpu))
        for number in range(hostile):
            where = ("--host", address(len(nodes) + number), "--noise", "--victim", VICTIM)
            log = work / f"hostile{number}.log"
            attackers.add(
                kinds_of(number, hostile), bootstrap.addresses, bootstrap.swarm, log, *where
            )

        def join(number: int, code: str) -> tuple[Node, float]:
            node = Node(options.nodes + number, work, bootstrap.swarm, config, ())
            if number % 2:
                firewall(address(node.number))
            took = node.join(code)
            node.since = node.due = time.monotonic() - began
            nodes.append(node)
            return node, took

        cards = Cards(bootstrap.chain, [60 * minute for minute in options.cards], first)
        times = [
            lost + (seconds - lost) * (number + 0.5) / (NEWCOMERS + 1)
            for number in range(NEWCOMERS)
        ]
        newcomers = Newcomers(times if lost else (), first, join)
        began, used = time.monotonic(), attackers.cpu_of_others()
        lived(nodes, changes, (bootstrap, cards, newcomers, victim), options, began)
        spent = (attackers.cpu_of_others() - used) / (time.monotonic() - began)
        hostile_spent = attackers.cpu() / (time.monotonic() - began)
        came, views = (
            newcomers.result(),
            [control.ask(node.home) or {} for node in nodes if node.there],
        )
    return {
        **freshness(nodes),
        "restarts": sum(view["network"]["processes"] - 1 for view in views),
        "cards": cards.result(),
        "newcomers": came,
        "cores": {"honest": spent, "hostile": hostile_spent},
        "hostile": attackers.counts(),
        "victim_bytes": victim.bytes,
        "settings": {name: str(value) for name, value in vars(options).items()},
    }


def lived(
    nodes: Sequence[Node],
    changes: Sequence[Change],
    happening: Sequence[Bootstrap | Cards | Newcomers | Victim],
    options: argparse.Namespace,
    began: float,
) -> None:
    """Lets the swarm live: does every change, event and round when it is due."""
    left = list(changes)
    while (now := time.monotonic() - began) < 60 * options.minutes:
        for each in happening:
            each.look(now)
        while left and left[0].second <= now:
            change = left.pop(0)
            node = nodes[change.node]
            if change.there and not node.there:
                node.come(now)
            elif not change.there:
                node.go(killed=len(left) % 2 == 0)
        for node in list(nodes):
            if node.due <= now:
                node.round(int(now // options.round_seconds), now)
                node.due += options.round_seconds
        time.sleep(0.05)


def all_go(nodes: Sequence[Node]) -> None:
    with ThreadPoolExecutor(16) as pool:  # each takes a second to say goodbye
        list(pool.map(lambda node: node.go(killed=False), nodes))


def freshness(nodes: Sequence[Node]) -> dict[str, Any]:
    """How many minutes of honest nodes count, which of them had no fresh group, and the mean number
    of fresh groups.
    """
    asked = [(node, minute) for node in nodes for minute in sorted(node.minutes)]
    return {
        "node_minutes": len(asked),
        "without_fresh": [
            (node.number, minute) for node, minute in asked if not node.fresh[minute]
        ],
        "fresh_groups_a_minute": sum(node.fresh[minute] for node, minute in asked)
        / max(1, len(asked)),
    }


if __name__ == "__main__":
    main()
