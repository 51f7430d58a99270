"""An attacker announces a peer at a victim's address: what do a thousand nodes send there? docs/results/reflection.md.

    python -m lab.studies.reflection --json

State machines and gates of a node on an event queue, with the swarm of `lab.studies.scale`; nodes keep 64 connections
and dial peers to which they are not connected. Every few seconds the attacker tells every node of a new identity, whose
four addresses are ports of one victim. A dial to an address without a host costs what `lab.studies.reflection_real`
measured.

Beside it the same swarm without an attacker: what the gate costs the honest, before and after 30 % of them die.
"""

from functools import partial
from typing import Any

from lab.benchmarks import command
from lab.studies.dialling_world import DiallingWorld
from lab.studies.reflection_real import VICTIM, reflector
from lab.studies.scale import CHURN, JOINING, ROUND, STEADY, SWARM, Swarm, measure
from protocol import wire
from protocol.identity import Identity
from swarm_node.network.backend import Caller

EVERY = 5.0  # seconds between two identities of the attacker
MINUTE = 60.0


def attacked(nodes: int, gated: bool, minutes: int, identities: int, seed: int = 0) -> dict[str, Any]:
    """What the victim receives from all nodes, minute by minute. `identities`: of the attacker, one after another."""
    world = DiallingWorld(seed, gated)
    swarm = grown(nodes, seed, world)
    for number in range(identities):
        world.after(number * EVERY, partial(tell, swarm))
    by_minute = []
    for _ in range(minutes):
        before = world.void[VICTIM]
        world.run(MINUTE)
        by_minute.append(world.void[VICTIM] - before)
    return {"gated": gated, "nodes": nodes, "identities": identities, "bytes_by_minute": by_minute}


def grown(nodes: int, seed: int, world: DiallingWorld) -> Swarm:
    """A swarm that has come together."""
    swarm = Swarm(nodes, seed, world)
    swarm.join_over(nodes, 2 * ROUND)
    world.run(JOINING * ROUND)
    return swarm


def tell(swarm: Swarm) -> None:
    """A new peer announces itself to every node, with the address of the victim."""
    world = swarm.world
    identity = Identity.from_seed_bytes(swarm.rng.randbytes(32))
    request = wire.ExchangeRequest(wire.swarm_tag(SWARM), 0, {}, reflector(identity, swarm=SWARM))
    network = swarm.rng.randrange(1 << 16)
    caller = Caller(identity.peer_id, f"/ip4/45.{network >> 8}.{network & 255}.1/tcp/4001")
    for exchange in swarm.exchanges(swarm.alive()):
        exchange.answer(caller, wire.EXCHANGE, wire.encode_exchange(request), world.now)


def calm(nodes: int, gated: bool, seed: int = 0) -> dict[str, Any]:
    """What the gate costs a swarm that nobody attacks."""
    world = DiallingWorld(seed, gated)
    swarm = grown(nodes, seed, world)
    steady = measure(swarm, STEADY, partial(world.run, STEADY * ROUND))
    for member in swarm.rng.sample(swarm.members, round(CHURN * nodes)):
        world.kill(member.peer)
    churned = measure(swarm, 2, partial(world.run, 2 * ROUND))
    came = {"steady": steady["groups_per_want"], "churned": churned["groups_per_want"]}
    return {"gated": gated, "nodes": nodes, "groups_per_want": came, "dials": dict(world.dials)}


def main() -> None:
    parser = command.parser("lab.studies.reflection", __doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--identities", type=int, nargs="*", default=[1, 120], help="of the attacker, by run")
    parser.add_argument("--no-calm", action="store_true", help="leave out the swarm without an attacker")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sides, lines = [], []
    for gated in (False, True):
        for identities in options.identities:
            side = attacked(options.nodes, gated, options.minutes, identities, options.seed)
            total = sum(side["bytes_by_minute"])
            first = f"{side['bytes_by_minute'][0] / 1e6:.2f}"
            rate = f"{total / options.minutes / MINUTE / options.nodes:.1f}"
            lines.append(["gate" if gated else "before", f"{identities}", first, f"{total / 1e6:.2f}", rate])
            sides.append(side)
            print(lines[-1], flush=True)
    command.show(["", "identities", "MB in the first minute", "MB in all", "bytes a second and node"], lines)
    quiet = [] if options.no_calm else [calm(options.nodes, gated, options.seed) for gated in (False, True)]
    lines = []
    for side in quiet:
        shares = [f"{side['groups_per_want'][phase]:.3f}" for phase in ("steady", "churned")]
        counts = [f"{side['dials'].get(name, 0)}" for name in ("answered", "in vain", "held back")]
        lines.append(["gate" if side["gated"] else "before", *shares, *counts])
    command.show(["", "groups that came", "after deaths", "dials answered", "in vain", "held back"], lines)
    totals = [sum(sum(side["bytes_by_minute"]) for side in sides if side["gated"] is gated) for gated in (False, True)]
    command.finish(options, {"ratio": totals[0] / max(1, totals[1]), "attacked": sides, "calm": quiet})


if __name__ == "__main__":
    main()
