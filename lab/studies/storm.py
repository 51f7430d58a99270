"""Sixteen nodes of which four are hostile: do the others keep their rounds and their learning?

    python -m lab.studies.storm --minutes 60 --json        # docs/results/storm.md; 14 GB of memory
    python -m lab.studies.storm --quick                    # four nodes, one hostile, a minute

Two swarms run side by side, each on half of the cores. Honest nodes are `swarm-node run` with the
starter `rare` and default options, except for the loopback address and an identity that is the same
in both. Hostile nodes are `lab.fuzzing.hostile_peer`. In the calm swarm they are idle. In the storm
one hangs scorers, one reflects, one floods and sends junk, one poisons; a lone one does it all. A
hostile node is stopped while it has had more than its share of a core. Ratios are storm over calm:
`ratio` of honest rounds for each second of a core that hostile nodes left; `rounds_ratio` of honest
rounds a second; `cpu_per_round_ratio` of CPU time of all honest processes for a round.
"""

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.waiting import until
from lab.studies import guests
from lab.studies.attackers import Attackers, Victim, kinds_of
from swarm_node.common.children import usable_cores
from swarm_node.simulation.arms import identity

START_SECONDS = 600.0  # until every node has done a round; sixteen load torch at the same time
LOOK_SECONDS = 0.5
WINDOW = 20  # last rounds of a node, whose mean is the reward at the end


def main() -> None:
    parser = command.parser("lab.studies.storm", __doc__)
    parser.add_argument("--nodes", type=int, default=16, help="a fourth of them are hostile")
    parser.add_argument("--minutes", type=float, default=10.0, help="after the first rounds")
    parser.add_argument(
        "--hostile-cpu", type=float, default=0.05, help="share of a core for each hostile node"
    )
    parser.add_argument("--seed", type=int, default=0)
    command.add_quick(parser)
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.minutes = 4, 1.0
    if options.nodes < 2:
        parser.error("--nodes: at least 2, one of them honest")
    with ProcessPoolExecutor(2) as pool:
        calm, storm = pool.map(partial(run, options), (False, True))
    result = compared(calm, storm)
    show(calm, storm, result)
    command.finish(options, {**result, "calm": calm, "storm": storm, "settings": settings(options)})


def settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "cores": usable_cores() // 2,
        **{name: value for name, value in vars(options).items() if name != "json"},
    }


def run(options: argparse.Namespace, hostile: bool) -> dict[str, Any]:
    """Runs one swarm on half of the cores. Rounds and CPU time are of the time in which all nodes
    were there.
    """
    attacking, target = max(1, options.nodes // 4), f"127.200.0.{1 + hostile}"
    # Both have the same identities and addresses, and must not meet
    swarm = "storm" if hostile else "calm"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[hostile::2])
    with ExitStack() as stack:
        work = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-storm-")))
        victim = Victim(target)
        stack.callback(victim.close)
        attackers = Attackers(options.hostile_cpu)
        homes = started(stack, work, options.nodes - attacking, options.seed, swarm)
        entrance = guests.address(work / "bootstrap")
        until(
            lambda: all(map(guests.rewards, homes)), START_SECONDS, "the first round of every node"
        )
        stack.enter_context(attackers)
        for number in range(attacking):
            kinds = kinds_of(number, attacking) if hostile else ()
            more = ("--victim", target, "--ready", str(work / f"ready{number}"))
            attackers.add(kinds, [entrance], swarm, work / f"hostile{number}.log", *more)
        until(
            lambda: len(list(work.glob("ready*"))) == attacking,
            START_SECONDS,
            "hostile nodes that have met somebody",
        )
        before, began = list(map(rounds_of, homes)), time.monotonic()
        used, busy = attackers.cpu(), attackers.cpu_of_others()
        while time.monotonic() - began < 60 * options.minutes:
            victim.look()
            time.sleep(LOOK_SECONDS)
        seconds, cpu = time.monotonic() - began, attackers.cpu() - used
        busy = attackers.cpu_of_others() - busy
        done = [now - then for now, then in zip(map(rounds_of, homes), before, strict=True)]
        reports = list(map(guests.reports, homes))
        names = [str(guests.peer_id(home)) for home in homes]
    return {
        "seconds": seconds,
        "rounds": done,
        "cpu_per_round": busy / max(1, sum(done)),
        "rewards": [[report["reward"] for report in each] for each in reports],
        "external": fmean(report["external_informative"] for each in reports for report in each),
        "trained_on_hostile": trained_on_others(reports, names),
        "victim": {"packets": victim.packets, "bytes": victim.bytes},
        "hostile": {"cpu_seconds": cpu, "cores": cpu / seconds, "did": attackers.counts()},
    }


def started(stack: ExitStack, work: Path, count: int, seed: int, swarm: str) -> list[Path]:
    """Starts a bootstrap node and `count` honest nodes. Returns the homes of the honest nodes."""
    where = ("--home", work / "bootstrap", "--host", "127.0.0.1", "--port", "0", "--swarm", swarm)
    stack.enter_context(
        guests.running(["-m", "swarm_node.commands.cli", "bootstrap", *where], work / "bootstrap")
    )
    entrance = guests.address(work / "bootstrap")
    homes = []
    for number in range(count):
        home = work / str(number)
        home.mkdir()
        (home / "identity.key").write_bytes(identity(seed, number).key_bytes())
        (home / "identity.key").chmod(0o600)
        network = ("--network.host", "127.0.0.1", "--network.no-mdns", "--peers", entrance)
        here = ("--swarm", swarm, "--model.name", "rare", *network)
        stack.enter_context(
            guests.running(["-m", "swarm_node.commands.cli", "run", "--home", home, *here], home)
        )
        homes.append(home)
    return homes


def rounds_of(home: Path) -> int:
    return len(guests.rewards(home))


def trained_on_others(reports: Sequence[Sequence[Mapping[str, Any]]], honest: Sequence[str]) -> int:
    """How many groups honest nodes trained on whose authors are not honest."""
    counts = [each["external_by_peer"] for node in reports for each in node]
    return sum(
        it.get("trained", 0) for each in counts for peer, it in each.items() if peer not in honest
    )


def compared(calm: Mapping[str, Any], storm: Mapping[str, Any]) -> dict[str, Any]:
    """Ratios of storm over calm; 1 where the storm changes nothing."""
    rate = {
        name: sum(side["rounds"]) / side["seconds"]
        for name, side in (("calm", calm), ("storm", storm))
    }
    left = {
        name: usable_cores() // 2 - side["hostile"]["cores"]
        for name, side in (("calm", calm), ("storm", storm))
    }
    whole, end = learning(calm["rewards"], storm["rewards"])
    return {
        "ratio": rate["storm"] / left["storm"] / (rate["calm"] / left["calm"]),
        "rounds_ratio": rate["storm"] / rate["calm"],
        "cpu_per_round_ratio": storm["cpu_per_round"] / calm["cpu_per_round"],
        "slowest_node_ratio": min(
            (b / storm["seconds"]) / max(1e-9, a / calm["seconds"])
            for a, b in zip(calm["rounds"], storm["rounds"], strict=True)
        ),
        "reward_ratio": whole,
        "reward_at_end": end,
    }


def learning(
    calm: Sequence[Sequence[float]], storm: Sequence[Sequence[float]]
) -> tuple[float | None, dict[str, float]]:
    """Cumulative reward, storm over calm, and reward at the end of each; over as many rounds as a
    node did in both.
    """
    pairs = [
        (a[: min(len(a), len(b))], b[: min(len(a), len(b))])
        for a, b in zip(calm, storm, strict=True)
    ]
    total = [sum(sum(pair[side]) for pair in pairs) for side in (0, 1)]
    end = {
        name: fmean(fmean(pair[side][-WINDOW:]) for pair in pairs)
        for side, name in ((0, "calm"), (1, "storm"))
    }
    return total[1] / total[0] if total[0] else None, end


def show(calm: Mapping[str, Any], storm: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    lines = []
    for name, side in (("calm", calm), ("storm", storm)):
        rate = sum(side["rounds"]) / side["seconds"]
        rounds = [
            f"{sum(side['rounds'])}",
            f"{rate:.2f}",
            f"{min(side['rounds'])} to {max(side['rounds'])}",
        ]
        rounds.append(f"{side['cpu_per_round']:.3f}")
        learnt = f"{side['external']:.2f}", f"{result['reward_at_end'][name]:.3f}"
        hostile = (
            f"{side['hostile']['cores']:.2f}",
            f"{side['trained_on_hostile']}",
            f"{side['victim']['bytes']}",
        )
        lines.append([name, *rounds, *learnt, *hostile])
    columns = [
        "rounds",
        "a second",
        "of a node",
        "CPU s of one",
        "external groups a round",
        f"reward, last {WINDOW} of both",
    ]
    command.show(
        ["", *columns, "cores of the hostile", "their groups trained on", "bytes at the victim"],
        lines,
    )
    print(f"\nhostile nodes did {storm['hostile']['did']}")
    whole = "none" if result["reward_ratio"] is None else f"{result['reward_ratio']:.2f}"
    slowest = result["slowest_node_ratio"]
    print(
        f"rounds a second {result['rounds_ratio']:.2f}, of the slowest node {slowest:.2f}, reward "
        f"{whole},"
        f" CPU of honest nodes for a round {result['cpu_per_round_ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
