"""Hostile peers try to fill the views of honest nodes: what share of a view do they get?
docs/results/eclipse.md.

    python -m lab.studies.eclipse --json

State machines of a node on an event queue, with the swarm of `lab.studies.scale`, each in a /24 of
its own. When the honest nodes have come together, hostile identities, some in each /24, renew their
announcements all the time, push two a second to every honest node, and answer a request with as
many of each other's announcements as it takes, all with age
0. The result is the honest share of the views, mean over the honest nodes. Swarms that are done are
   kept.
"""

from functools import partial
from itertools import product
from random import Random
from statistics import fmean
from typing import Any

from lab.benchmarks import command
from lab.studies.scale import JOINING, LATENCY, LOSS, ROUND, SWARM, Swarm
from lab.studies.simulated_exchange import World
from protocol import codec, wire
from protocol.identity import Identity
from protocol.messages import Announcement, PeerId, Round
from swarm_node.network.backend import Caller

PUSHES = 2  # a second, to each honest node
RENEW = 20.0  # seconds between two announcements of a hostile identity
# Announcements of honest peers in a view: with fewer a node has hardly anything to choose from
FEW = 8


class Party:
    """All hostile peers together."""

    def __init__(self, world: World, identities: int, together: int, rng: Random) -> None:
        """`together`: identities that share an address; each address is in a /24 of its own."""
        self._rng, self._seq = rng, 0
        self._all: list[tuple[Identity, str]] = []
        for number in range(identities):
            network = number // together
            address = (
                f"/ip4/{150 + network // 65536}.{network // 256 % 256}.{network % 256}.7/tcp/31330"
            )
            self._all.append((Identity.from_seed_bytes(rng.randbytes(32)), address))
        self.peers = frozenset(identity.peer_id for identity, _ in self._all)
        self.fresh: list[bytes] = []
        for identity, address in self._all:
            world.join(identity.peer_id, self, address)

    def renew(self) -> None:
        """Makes a new announcement of every identity."""
        self._seq += 1
        self.fresh = [self._sealed(identity, address) for identity, address in self._all]

    def answer(self, caller: Caller, protocol: str, request: bytes, now: float) -> bytes:
        """As many announcements of hostile identities as the request asks for."""
        asked = wire.decode_exchange(request) if protocol == wire.EXCHANGE else None
        count = min(getattr(asked, "limit", 0), len(self.fresh))
        return wire.encode_items(
            [wire.CarriedAnnouncement(0, sealed) for sealed in self._rng.sample(self.fresh, count)]
        )

    def push(self) -> tuple[Caller, bytes]:
        """A hostile identity as the caller, and its request, which carries its announcement."""
        number = self._rng.randrange(len(self._all))
        identity, address = self._all[number]
        request = wire.ExchangeRequest(wire.swarm_tag(SWARM), 0, {}, self.fresh[number])
        return Caller(identity.peer_id, address), wire.encode_exchange(request)

    def _sealed(self, identity: Identity, address: str) -> bytes:
        announcement = Announcement(
            addresses=(address,),
            author=identity.peer_id,
            groups=(),
            held=(),
            round=Round(self._seq),
            seq=self._seq,
        )
        return codec.seal(announcement, identity, SWARM)


def run(nodes: int, identities: int, together: int, minutes: int, seed: int) -> dict[str, Any]:
    """Runs one swarm under attack. Returns what its nodes see after every minute."""
    world = World(Random(f"eclipse/{seed}"), LATENCY, LOSS, keep_deliveries=False)
    swarm = Swarm(nodes, seed, world)
    swarm.join_over(nodes, 2 * ROUND)
    world.run(JOINING * ROUND)
    party = Party(world, identities, together, Random(f"party/{seed}"))

    def renew() -> None:
        party.renew()
        world.after(RENEW, renew)

    def push() -> None:
        for exchange in swarm.exchanges(swarm.alive()):
            for _ in range(PUSHES if identities else 0):
                caller, request = party.push()
                exchange.answer(caller, wire.EXCHANGE, request, world.now)
        world.after(1.0, push)

    renew()
    push()
    by_minute = []
    for _ in range(minutes):
        world.run(60.0)
        by_minute.append(seen(swarm, party.peers))
    return {"nodes": nodes, "identities": identities, "together": together, "by_minute": by_minute}


def seen(swarm: Swarm, hostile: frozenset[PeerId]) -> dict[str, float]:
    """The hostile share of the views, and the share of nodes that see fewer than FEW honest
    peers.
    """
    views = [
        [entry.announcement.author in hostile for entry in it.view]
        for it in swarm.exchanges(swarm.alive())
    ]
    return {
        "hostile_in_view": fmean(fmean(view) if view else 1.0 for view in views),
        "nodes_with_few_honest": fmean(view.count(False) < FEW for view in views),
    }


def main() -> None:
    parser = command.parser("lab.studies.eclipse", __doc__)
    parser.add_argument("--nodes", type=int, default=200, help="honest ones")
    parser.add_argument(
        "--identities",
        type=int,
        nargs="+",
        default=[0, 50, 100, 200, 400, 700, 1000],
        help="hostile",
    )
    parser.add_argument(
        "--together", type=int, nargs="+", default=[1, 4, 20], help="hostile ones of a /24"
    )
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    command.add_runs(parser)
    options = parser.parse_args()
    results, lines = [], []
    for together, identities in product(options.together, options.identities):
        about = (options.nodes, identities, together, options.minutes, options.seed)
        file = options.runs / f"{'-'.join(map(str, about))}.json"
        results.append(command.kept(file, partial(run, *about)))
        minutes = results[-1]["by_minute"]
        few = f"{minutes[-1]['nodes_with_few_honest']:.2f}"
        shares = (f"{1 - minute['hostile_in_view']:.2f}" for minute in minutes)
        lines.append([f"{together}", f"{identities}", *shares, few])
        print(lines[-1], flush=True)
    header = [f"minute {number + 1}" for number in range(options.minutes)]
    command.show(
        ["of a /24", "identities", *header, f"nodes with fewer than {FEW} honest, at the end"],
        lines,
    )
    command.finish(options, {"swarms": results})


if __name__ == "__main__":
    main()
