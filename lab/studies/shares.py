"""How much of what honest nodes train on is hostile peers', each in a network of its own?

    python -m lab.studies.shares --json                        # docs/results/shares.md; needs root
    python -m lab.studies.shares --attacks flooder --minutes 1

Honest nodes are `swarm-node run` with the starter `rare` and default options, hostile ones
`lab.fuzzing.hostile_peer`. Each runs in a network namespace of its own with a public address in a
/16 network of its own /24, since places are shared out by networks. A flooder makes 16 groups a
second; sybils are eight identities at one address; a stealthy one hides a payload in right answers.
The share of an attack is its part of all external groups that honest nodes trained on, mean over
the nodes. Its fair share is one part in as many networks as publish, seen from an honest node.
Where the defence leaves out much of one attack, all others get more than that, so the share is also
set against that of an honest node, mean over the honest ones.
"""

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.internet.namespaces import Internet, Namespace, reason
from lab.benchmarks.seeded import SYBILS, identities
from lab.benchmarks.waiting import until
from lab.studies import guests
from lab.studies.attackers import Attackers
from protocol.messages import PeerId
from swarm_node.simulation.arms import identity

START_SECONDS = 600.0  # until every node has done a round; all load torch at the same time
SWARM = "shares"
# Attack -> kind of hostile peer and its options
ATTACKS: Mapping[str, tuple[str, ...]] = {
    "flooder": ("flooder", "--groups", "16", "--every", "1"),
    "replayer": ("replayer", "--every", "2"),
    "sybils": ("sybils",),
    "plagiarist": ("plagiarist",),
    "stealth": ("poison",),
}


def host(internet: Internet, number: int) -> tuple[Namespace, str]:
    """A namespace on the small internet, and its address, which no other shares the /24 of."""
    place = internet.public(f"h{number}")
    address = f"45.33.{20 + number}.1"
    place.run("ip", "addr", "add", f"{address}/16", "dev", "eth0")
    return place, address


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Runs one swarm. Counts are of the time in which all nodes were there."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-shares-")))
        internet = stack.enter_context(Internet())
        entrance = _bootstrap(stack, internet, work)
        homes = [
            _honest(stack, internet, work, number, entrance, options)
            for number in range(options.honest)
        ]
        attackers = stack.enter_context(Attackers(options.hostile_cpu))
        for number, name in enumerate(options.attacks):
            place, address = host(internet, 50 + number)
            kind, *more = ATTACKS[name]
            about = ["--seed", name, "--host", address, *more]
            log = work / f"{name}.log"
            attackers.add([kind], [entrance], SWARM, log, *about, inside=place.inside)
        until(
            lambda: all(map(guests.rewards, homes)), START_SECONDS, "the first round of every node"
        )
        before = [len(guests.reports(home)) for home in homes]
        time.sleep(60 * options.minutes)
        reports = [guests.reports(home)[begun:] for home, begun in zip(homes, before, strict=True)]
        authors = [guests.peer_id(home) for home in homes]
    did = attackers.counts()
    return {**shares(reports, authors, options.attacks), "did": did}


def _bootstrap(stack: ExitStack, internet: Internet, work: Path) -> str:
    place, address = host(internet, 0)
    home = work / "bootstrap"
    where = ["--home", home, "--host", address, "--port", "0", "--swarm", SWARM]
    words = ["-m", "swarm_node.commands.cli", "bootstrap", *where]
    stack.enter_context(guests.running(words, home, inside=place.inside))
    return guests.address(home)


def _honest(
    stack: ExitStack,
    internet: Internet,
    work: Path,
    number: int,
    entrance: str,
    options: argparse.Namespace,
) -> Path:
    place, address = host(internet, 1 + number)
    home = work / str(number)
    home.mkdir()
    (home / "identity.key").write_bytes(identity(options.seed, number).key_bytes())
    (home / "identity.key").chmod(0o600)
    network = ["--network.host", address, "--network.no-mdns", "--peers", entrance]
    here = ["--home", home, "--swarm", SWARM, "--model.name", "rare", "--threads", 1]
    words = ["-m", "swarm_node.commands.cli", "run", *here, *network]
    one_thread = {"OMP_NUM_THREADS": "1"}
    stack.enter_context(guests.running(words, home, one_thread, inside=place.inside))
    return home


def shares(
    reports: Sequence[Sequence[Mapping[str, Any]]],
    authors: Sequence[PeerId],
    attacks: Sequence[str],
) -> dict[str, Any]:
    """The share of each attack in what each node trained on, mean over the nodes."""
    names = {
        who.peer_id: name for name in attacks for who in identities(name, SYBILS)
    } | dict.fromkeys(authors, "honest")
    by_node = list[Counter[str]]()
    for node in reports:
        counted: Counter[str] = Counter()
        for report in node:
            for peer, what in report["external_by_peer"].items():
                counted[names.get(peer, "unknown")] += what.get("trained", 0)
        by_node.append(counted)
    fair = 1 / (len(authors) - 1 + len(attacks))
    of_attack = {
        name: fmean(counted[name] / max(1, counted.total()) for counted in by_node)
        for name in [*attacks, "unknown"]
    }
    of_one_honest = fmean(
        counted["honest"] / (len(authors) - 1) / max(1, counted.total()) for counted in by_node
    )
    return {
        "fair": fair,
        "share": of_attack,
        "of_fair": _divided(of_attack, fair),
        "of_honest": _divided(of_attack, of_one_honest),
        "trained_on": sum(counted.total() for counted in by_node),
        "rounds": [len(node) for node in reports],
        "by_node": [dict(counted) for counted in by_node],
    }


def _divided(of_attack: Mapping[str, float], by: float) -> dict[str, float]:
    return {name: share / by if by else inf for name, share in of_attack.items()}


def main() -> None:
    parser = command.parser("lab.studies.shares", __doc__)
    parser.add_argument("--honest", type=int, default=5, help="nodes that train")
    parser.add_argument("--attacks", nargs="*", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--minutes", type=float, default=5.0, help="after the first rounds")
    parser.add_argument(
        "--hostile-cpu", type=float, default=0.2, help="share of a core for each hostile peer"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if missing := reason():
        parser.error(missing)
    result = run(options)
    lines = [
        [
            name,
            f"{result['share'][name]:.3f}",
            f"{result['of_fair'][name]:.2f}",
            f"{result['of_honest'][name]:.2f}",
        ]
        for name in options.attacks
    ]
    heads = ["attack", "share of training", "times its fair share", "times an honest node's"]
    command.show(heads, lines)
    print(f"\n{result['trained_on']} external groups trained on, rounds {result['rounds']}")
    print(f"hostile peers did {result['did']}")
    settings = {name: value for name, value in vars(options).items() if name != "json"}
    command.finish(options, {**result, "settings": settings})


if __name__ == "__main__":
    main()
