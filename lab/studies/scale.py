"""The traffic of the exchange, and what arrives by it, with 100, 1,000 and 10,000 nodes.

    python -m lab.studies.scale --json

The state machines are those of a node and their bytes are real; the network is an event queue with
latency and loss. All nodes run in one process. Groups are small and counted as 10 KB. Each node
knows three bootstrap nodes, which do not train, and joins during the first two rounds. After a
while 30 % die at once and as many new ones join.
"""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from statistics import fmean
from typing import Any

from lab.benchmarks import command
from lab.studies.simulated_exchange import SimulatedPeer, World
from protocol import codec, limits
from protocol.addressing import question_seed
from protocol.identity import Identity
from protocol.messages import Episode, PeerId, Question, Round
from swarm_node.network.actions import Deliver
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.rollouts.groups import Group
from swarm_node.settings import NetworkConfig

# Seconds, on average; every node has a pace of its own, up to a third quicker or slower
ROUND = 30.0
GROUPS, WANT, GROUP_BYTES = 9, 4, 10_000
ENTRIES = 8  # bootstrap nodes
LATENCY, LOSS = (0.02, 0.2), 0.05  # seconds one way; share of calls that time out
CHURN = 0.3  # share of the nodes that die at once, and of those that join
JOINING, STEADY, AFTER = 3, 3, 7  # rounds: not measured; measured before the churn; and after it
SWARM = "scale"


@dataclass
class Window:
    """Counts of one stretch of time, while it is measured."""

    # Rounds between a group's publishing and its arrival
    ages: list[float] = field(default_factory=list)
    # Groups of each origin that arrived somewhere
    pulled_from: Counter[PeerId] = field(default_factory=Counter)
    bytes_at_start: dict[PeerId, int] = field(default_factory=dict)
    # Bytes to add, since groups count as GROUP_BYTES
    extra: Counter[PeerId] = field(default_factory=Counter)
    wants: int = 0


class Swarm:
    def __init__(self, nodes: int, seed: int, world: World | None = None) -> None:
        self.rng = Random(f"scale/{seed}/{nodes}")
        self.world = world or World(
            Random(f"wire/{seed}/{nodes}"), LATENCY, LOSS, keep_deliveries=False
        )
        self.world.on_delivery = self._delivered
        self.members: list[SimulatedPeer] = []
        self.published: dict[tuple[PeerId, int], float] = {}  # (author, round) -> seconds
        self.window: Window | None = None
        self._entries: list[SimulatedPeer] = []
        self._count = 0
        for _ in range(ENTRIES):
            self._entries.append(self._start(serve_only=True)[0])

    def join_over(self, nodes: int, seconds: float) -> None:
        for _ in range(nodes):
            self.world.after(self.rng.uniform(0, seconds), self._join)

    def alive(self) -> list[SimulatedPeer]:
        return [member for member in self.members if member.alive]

    def exchanges(self, members: Sequence[SimulatedPeer]) -> list[Exchange]:
        return [member.party for member in members if isinstance(member.party, Exchange)]

    def _join(self) -> None:
        member, identity, exchange = self._start()
        self.members.append(member)
        for entry in self.rng.sample(self._entries, 3):
            exchange.learned(entry.peer, [f"{entry.address}/p2p/{entry.peer}"])
        pace = ROUND * self.rng.uniform(2 / 3, 4 / 3)
        self.world.after(
            self.rng.uniform(0, pace), partial(self._publish, member, identity, exchange, 0, pace)
        )

    def _start(self, serve_only: bool = False) -> tuple[SimulatedPeer, Identity, Exchange]:
        number, self._count = self._count, self._count + 1
        identity = Identity.from_seed_bytes(self.rng.randbytes(32))
        rng = Random(self.rng.random())
        config = NetworkConfig(upload_limit=1_000_000)
        exchange = Exchange(identity, SWARM, config, rng, self.world.now, serve_only)
        address = f"/ip4/{20 + number // 65536}.{number // 256 % 256}.{number % 256}.7/tcp/31330"
        return self.world.join(identity.peer_id, exchange, address), identity, exchange

    def _publish(
        self, member: SimulatedPeer, identity: Identity, exchange: Exchange, round: int, pace: float
    ) -> None:
        if not member.alive:
            return
        self.published[member.peer, round] = self.world.now
        self.published.pop((member.peer, round - 20), None)
        if self.window:
            self.window.wants += WANT
        envelopes = _groups(identity, round)
        self.world.perform(member, exchange.publish(envelopes, Round(round), WANT, self.world.now))
        again = partial(self._publish, member, identity, exchange, round + 1, pace)
        self.world.after(pace * self.rng.uniform(0.9, 1.1), again)

    def _delivered(self, member: SimulatedPeer, delivery: Deliver) -> None:
        if not self.window:
            return
        group, size = delivery.group, len(delivery.payload) + limits.SIGNATURE_BYTES
        self.window.ages.append(
            (self.world.now - self.published[group.author, group.round]) / ROUND
        )
        self.window.pulled_from[group.author] += 1
        for peer in (member.peer, delivery.source):
            self.window.extra[peer] += GROUP_BYTES - size


def _groups(author: Identity, round: int) -> list[bytes]:
    seed = question_seed(SWARM, author.peer_id, Round(round))
    completions = (Episode.of(text="4", ended=True), Episode.of(text="5", ended=True))
    sealed = []
    for index in range(GROUPS):
        question = Question(
            environment="e",
            version="1",
            dataset="d",
            config_id="c",
            digest="A" * 11,
            seed=seed,
            index=index,
        )
        group = Group.of_text(author.peer_id, Round(round), question, completions).message()
        sealed.append(codec.seal(group, author, SWARM))
    return sealed


def measure(swarm: Swarm, rounds: float, live: Callable[[], None]) -> dict[str, Any]:
    """The figures of these rounds, those of a node for nodes that live through all of them. `live`
    runs the rounds.
    """
    window = swarm.window = Window()
    window.bytes_at_start = {member.peer: member.sent + member.received for member in swarm.alive()}
    live()
    swarm.window = None
    present = [member for member in swarm.alive() if member.peer in window.bytes_at_start]
    bytes_ = [
        (
            member.sent
            + member.received
            - window.bytes_at_start[member.peer]
            + window.extra[member.peer]
        )
        / rounds
        for member in present
    ]
    return {
        "kilobytes_per_node_and_round": _spread([value / 1000 for value in bytes_]),
        "age_in_rounds": _spread(window.ages),
        "pulls_per_origin_and_round": _spread(
            [window.pulled_from[member.peer] / rounds for member in present]
        ),
        "groups_per_want": len(window.ages) / max(1, window.wants),
    }


def stale(swarm: Swarm) -> float:
    """Share of the views' entries whose author is dead."""
    entries = [
        not swarm.world.members[entry.announcement.author].alive
        for exchange in swarm.exchanges(swarm.alive())
        for entry in exchange.view
    ]
    return fmean(entries)


def run(nodes: int, seed: int) -> dict[str, Any]:
    """Runs one swarm from its start to some rounds after the churn. Returns the figures."""
    start = time.process_time()
    swarm = Swarm(nodes, seed)
    swarm.join_over(nodes, 2 * ROUND)
    swarm.world.run(JOINING * ROUND)
    steady = measure(swarm, STEADY, partial(swarm.world.run, STEADY * ROUND))
    result: dict[str, Any] = {"nodes": nodes, "steady": steady}
    churned = swarm.world.now
    for member in swarm.rng.sample(swarm.members, round(CHURN * nodes)):
        swarm.world.kill(member.peer)
    swarm.join_over(round(CHURN * nodes), ROUND)
    staleness = {"0": stale(swarm)}
    result["churned"] = measure(swarm, 2, partial(swarm.world.run, 2 * ROUND))
    while swarm.world.now < churned + AFTER * ROUND:
        staleness[f"{(swarm.world.now - churned) / ROUND:g}"] = stale(swarm)
        swarm.world.run(ROUND)
    staleness[f"{(swarm.world.now - churned) / ROUND:g}"] = stale(swarm)
    result["stale_entries_by_round"] = staleness
    result["cpu_seconds"] = time.process_time() - start
    result["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    ordered = sorted(values)
    at = {
        name: ordered[int(share * (len(ordered) - 1))]
        for name, share in (("p1", 0.01), ("p50", 0.5), ("p99", 0.99))
    }
    return {"mean": fmean(ordered), **at, "max": ordered[-1]}


def main() -> None:
    parser = command.parser("lab.studies.scale", __doc__)
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[100, 1000, 10_000], help="sizes of the swarm"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    results = []
    for nodes in arguments.nodes:
        results.append(run(nodes, arguments.seed))
        print(f"{nodes} nodes: {results[-1]['cpu_seconds']:.0f} CPU s", flush=True)
    columns = [dict(_figures(result)) for result in results]
    command.show(
        ["", *map(str, arguments.nodes)],
        [[name, *(f"{each[name]:.4g}" for each in columns)] for name in columns[0]],
    )
    small, large = (
        result["steady"]["kilobytes_per_node_and_round"]["mean"]
        for result in (results[0], results[-1])
    )
    found = {"ratio": large / small, "smallest": results[0], "largest": results[-1], "all": results}
    command.finish(arguments, found)


def _figures(found: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a result, named by the keys that lead to it."""
    for key, value in found.items():
        path = f"{name}, {key}" if name else key
        if isinstance(value, Mapping):
            yield from _figures(value, path)
        else:
            yield path.replace("_", " "), value


if __name__ == "__main__":
    main()
