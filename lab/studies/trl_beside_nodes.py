"""Does the TRL example learn better in a swarm than alone, where right completions are rarest?

    python -m lab.studies.trl_beside_nodes --seeds 3      # docs/results/mixed_swarm.md

Each seed runs `examples/trl/train.py` twice: alone, with 4 local groups a step, and with two real nodes on loopback,
with 2 local groups and up to 2 external ones. All three train the starter `rarest` at the same learning rate, on the
nine tasks of the other studies: on the three of the example a script soon finds enough by itself. `--ahead`
lets the nodes run for so many rounds before the script joins them. Compared is the cumulative reward of the script's
own local groups. Real processes are not deterministic: a seed names a start.
"""

from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.waiting import until
from lab.studies import guests
from swarm_node.environments.reasoning_gym.catalogue import STARTER_TASKS
from swarm_node.extensions.simulation.statistics import ci95

LIMIT_SECONDS = 3600.0


def main() -> None:
    parser = command.parser("lab.studies.trl_beside_nodes", __doc__)
    command.add_runs(parser)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ahead", type=int, default=0, help="rounds of the nodes before the script joins (0)")
    options = parser.parse_args()
    alone: list[dict[str, Any]] = []
    shared: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        for arm, into in (("alone", alone), ("swarm", shared)):
            ahead = options.ahead if arm == "swarm" else None
            file = options.runs / f"{arm}-{options.steps}-{ahead or 0}-{seed}.json"
            into.append(command.kept(file, lambda seed=seed, ahead=ahead: run(seed, options.steps, ahead)))  # type: ignore[misc]
            print(f"seed {seed} {arm}: {sum(into[-1]['rewards']):.2f}", flush=True)
    show(alone, shared)
    totals = [[sum(each["rewards"]) for each in arm] for arm in (alone, shared)]
    ratio = fmean(totals[1]) / fmean(totals[0]) if fmean(totals[0]) else None
    command.finish(options, {"ratio": ratio, "alone": totals[0], "swarm": totals[1], "steps": options.steps})


def run(seed: int, steps: int, ahead: int | None) -> dict[str, Any]:
    """The script's rewards by step, and how many external groups it trained on. `ahead`: rounds that the nodes have
    done before; None without nodes."""
    swarm = ahead is not None
    with TemporaryDirectory(prefix="trl-") as name, ExitStack() as stack:
        peers: list[str] = []
        for number in range(2 * swarm):
            home = Path(name, f"node-{number}")
            asked = guests.node(home, "--seed", seed, *(("--peers", *peers) if peers else ()), asked=STARTER_TASKS)
            stack.enter_context(guests.running(asked, home))
            peers.append(guests.address(home))
        if ahead:
            until(lambda: len(guests.rewards(Path(name, "node-0"))) >= ahead, LIMIT_SECONDS, "the nodes' first rounds")
        home = Path(name, "script")
        environment = guests.of_script(steps, seed, 2 if swarm else 0, STARTER_TASKS)
        process = stack.enter_context(guests.running(guests.script(home, *peers), home, environment))
        until(lambda: process.poll() is not None, LIMIT_SECONDS, "the script's end")
        if process.returncode:
            raise RuntimeError(guests.log(home).read_text()[-2000:])
        return {"rewards": guests.rewards(home), "external": guests.external(home)}


def show(alone: list[dict[str, Any]], shared: list[dict[str, Any]]) -> None:
    lines = []
    for name, arm in (("alone", alone), ("with two nodes", shared)):
        totals = [sum(each["rewards"]) for each in arm]
        half = ci95(totals)
        last = fmean(fmean(each["rewards"][-20:]) for each in arm)
        external = fmean(each["external"] for each in arm)
        spread = "" if half is None else f" ± {half:.1f}"
        seeds = ", ".join(f"{total:.1f}" for total in totals)
        lines.append([name, f"{fmean(totals):.1f}{spread}", seeds, f"{last:.3f}", f"{external:.0f}"])
    command.show(["script", "cumulative reward, 95 %", "per seed", "last 20 steps", "external groups"], lines)


if __name__ == "__main__":
    main()
