"""Minutes, tokens and memory until a model's held-out reward has risen by 0.2, beside TRL.

    python -m lab.benchmarks.minutes --json              # continues where it stopped
    python -m lab.benchmarks.minutes --at-most 0         # reports what is done

This node, alone, and TRL's GRPOTrainer train the same LoRA adapters of one model on the same
questions, with as many prompts, completions and tokens in an update. The learning rate of both is
swept on the first seed, and the best one runs on the other seeds. `minutes_sides` says how a run is
made, and what TRL is given.

The price is CPU time of one thread, of a process and its children, since others may compute on the
machine at the same time; with --gpu it is the time of the clock. Evaluations are not counted, and
the start (imports, loading, the first connection to the scorer) is told apart. Between two
evaluations the course is taken to be linear. A run that ends before it reached the level is
censored: means are then restricted to the price up to which every run was followed, and the ratio
says on which side of it the truth lies.

Each run has a process and a file of its own under --runs, and is never done twice.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.benchmarks import command, minutes_sides
from lab.benchmarks.levels import known_until, reached, restricted, time_to
from lab.benchmarks.minutes_sides import BASE, OURS, TRL, Task, Work

RATES = (5e-4, 2.5e-4, 1e-3)  # the middle first, for a sweep that is interrupted
SEEDS = (6300, 6301, 6302)  # the first is that of the sweep
SIDES = (OURS, TRL)
WORK = Work(
    model="smollm2-135m-q4",
    tasks=("swap/few", "second_word/few", "month_of/few", "plus_ten/few"),
)
QUICK = replace(
    WORK,
    model="dense",
    tasks=("count_bits/tiny",),
    prompts=2,
    group=4,
    rank=4,
    held_out=4,
    every=1,
    most_updates=2,
)

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Runs:
    """The runs in a folder. `left`: how many more may be made; None for all."""

    folder: Path
    work: Work
    left: list[int | None] = field(default_factory=lambda: [None])

    def run(self, task: Task) -> dict[str, Any] | None:
        """The run, made now if it is missing and may be made; else None."""
        file = self._file(task)
        (left,) = self.left
        if not file.exists():
            if left == 0:
                return None
            self.left[0] = None if left is None else left - 1
        run = command.kept(file, lambda: in_process(task))
        if run["work"] != json.loads(json.dumps(asdict(self.work))):
            raise SystemExit(f"{file} is a run of other sizes: name another folder with --runs")
        return run

    def _file(self, task: Task) -> Path:
        if task.side == BASE:
            return self.folder / "base.json"
        return self.folder / task.side / f"{task.rate:g}" / f"{task.seed}.json"


def in_process(task: Task) -> dict[str, Any]:
    """Makes a run in a new process."""
    print(f"{task.side}, rate {task.rate:g}, seed {task.seed} ...", flush=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(minutes_sides.measured, task).result()


def course(run: Run, axis: str, base: float) -> tuple[list[float], list[float]]:
    """What was spent until each evaluation, and the rewards, from the untrained model on."""
    points = run["points"]
    return [0.0, *(point[axis] for point in points)], [base, *(point["reward"] for point in points)]


def time_of(run: Run, axis: str, base: float, gain: float) -> float | None:
    """What a run spent until the reward had risen by `gain`; None if it never had."""
    return time_to(base + gain, *course(run, axis, base))


def best_of(by_rate: Mapping[float, Run], axis: str, base: float, gain: float) -> float:
    """The rate that reached the level first; where none did, the one with the highest reward."""

    def order(rate: float) -> tuple[bool, float]:
        time = time_of(by_rate[rate], axis, base, gain)
        last = by_rate[rate]["points"][-1]["reward"]
        return (time is None, -last if time is None else time)

    return min(by_rate, key=order)


def edge(best: float, rates: Sequence[float]) -> str:
    """Where the best rate is not between two that were tried: at which end of them."""
    ends = {min(rates): "lowest", max(rates): "highest"}
    return ends.get(best, "") if len(rates) > 1 else "only one"


def compared(
    runs: Mapping[str, Sequence[Run]], axis: str, base: float, gain: float
) -> dict[str, Any]:
    """Restricted mean prices of both sides, how often TRL's is ours, and what is known of the true
    ratio: "exact", "at least", "at most" or "unknown".
    """
    times = {side: [time_of(run, axis, base, gain) for run in of] for side, of in runs.items()}
    every_time = [time for of in times.values() for time in of]
    ends = [run["points"][-1][axis] for of in runs.values() for run in of]
    horizon = known_until(every_time, ends)
    means = {side: fmean(restricted(of, horizon)) for side, of in times.items()}
    late = {side: any(time is None or time > horizon for time in of) for side, of in times.items()}
    bounds = {
        (False, False): "exact",
        (False, True): "at least",
        (True, False): "at most",
        (True, True): "unknown",
    }
    return {
        "means": means,
        "reached": {side: reached(of, horizon) for side, of in times.items()},
        "ratio": means[TRL] / means[OURS],
        "bound": bounds[late[OURS], late[TRL]],
        "times": times,
    }


def swept(runs: Runs, side: str, rates: Sequence[float], base: float) -> dict[float, Run]:
    """The runs of a side on the first seed, by rate, as far as they are done."""
    by_rate: dict[float, Run] = {}
    for rate in rates:
        if run := runs.run(Task(side, rate, SEEDS[0], runs.work, base)):
            by_rate[rate] = run
    return by_rate


def report(
    runs: Runs, by_side: Mapping[str, Mapping[float, Run]], base: float, seeds: int
) -> dict[str, Any]:
    """Runs the best rate of each side on the other seeds, and compares what is done."""
    work = runs.work
    axis = "wall" if work.gpu else "cpu"
    sides: dict[str, Any] = {}
    of_best: dict[str, list[Run]] = {}
    for side, by_rate in by_side.items():
        best = best_of(by_rate, axis, base, work.gain)
        times = {rate: time_of(run, axis, base, work.gain) for rate, run in sorted(by_rate.items())}
        sides[side] = {"rate": best, "edge": edge(best, list(times)), "swept": times}
        of_best[side] = [by_rate[best]]
    for seed in SEEDS[1:seeds]:
        for side in by_side:
            if run := runs.run(Task(side, sides[side]["rate"], seed, work, base)):
                of_best[side].append(run)
    for side, done in of_best.items():
        sides[side] |= figures(done, base, work.gain)
    axes = {name: compared(of_best, name, base, work.gain) for name in ("cpu", "wall", "tokens")}
    return {
        "ratio": axes[axis]["ratio"],
        "bound": axes[axis]["bound"],
        "axis": axis,
        "base": base,
        "sides": sides,
        "compared": axes,
    }


def figures(done: Sequence[Run], base: float, gain: float) -> dict[str, Any]:
    """The figures of the runs of a side with its best rate: one number for each seed, or a mean."""
    per_update = [
        {part: seconds / run["points"][-1]["updates"] for part, seconds in run["phases"].items()}
        for run in done
    ]
    parts = per_update[0]
    return {
        "seeds": len(done),
        "cpu": [time_of(run, "cpu", base, gain) for run in done],
        "wall": [time_of(run, "wall", base, gain) for run in done],
        "tokens": [time_of(run, "tokens", base, gain) for run in done],
        "updates": [time_of(run, "updates", base, gain) for run in done],
        "last": [run["points"][-1] for run in done],
        "start_cpu": fmean(run["start"]["cpu"] for run in done),
        "start_wall": fmean(run["start"]["wall"] for run in done),
        "peak_mebibytes": max(run["peak_mebibytes"] for run in done),
        "cpu_seconds_of_an_update": {
            part: fmean(parts_of_run[part] for parts_of_run in per_update) for part in parts
        },
    }


def show(result: Mapping[str, Any], gain: float) -> None:
    """Prints the tables of the page: the sweep, and the price of the level."""
    sweep_lines = [
        [side, *(_figure(time) for time in of["swept"].values())]
        for side, of in result["sides"].items()
    ]
    rates = [f"{rate:g}" for rate in next(iter(result["sides"].values()))["swept"]]
    command.show([f"{result['axis']} s until +{gain:g}, by rate", *rates], sweep_lines)
    heads = ("", "rate", "CPU s, by seed", "minutes of the clock", "updates", "tokens")
    more = ("start, CPU s", "start, s", "peak MiB")
    lines = [
        [
            side,
            f"{of['rate']:g}",
            ", ".join(map(_figure, of["cpu"])),
            ", ".join(_figure(time and time / 60, ".2f") for time in of["wall"]),
            ", ".join(map(_figure, of["updates"])),
            ", ".join(map(_figure, of["tokens"])),
            f"{of['start_cpu']:.0f}",
            f"{of['start_wall']:.0f}",
            f"{of['peak_mebibytes']:.0f}",
        ]
        for side, of in result["sides"].items()
    ]
    command.show([*heads, *more], lines)
    for side, of in result["sides"].items():
        parts = of["cpu_seconds_of_an_update"].items()
        print(f"{side}, CPU s of an update:", ", ".join(f"{k} {v:.2f}" for k, v in parts if v > 0))


def _figure(time: float | None, form: str = ".0f") -> str:
    return "not reached" if time is None else format(time, form)


def main() -> None:
    parser = command.parser("lab.benchmarks.minutes", __doc__)
    command.add_quick(parser)
    command.add_runs(parser)
    options = sized(parser)
    runs = Runs(options.runs, options.work, [options.at_most])
    untrained = runs.run(Task(BASE, 0.0, 0, options.work))
    if untrained is None:
        return command.finish(options, {"ratio": None, "missing": "every run"})
    base = float(untrained["reward"])
    by_side: dict[str, dict[float, Run]] = {side: {} for side in SIDES}
    for rate in options.rates:
        for side in SIDES:
            by_side[side] |= swept(runs, side, [rate], base)
    if not all(by_side.values()):
        return command.finish(options, {"ratio": None, "base": base, "missing": "a whole side"})
    result = report(runs, by_side, base, options.seeds)
    show(result, options.work.gain)
    settings = {**asdict(options.work), **command.versions("torch", "transformers", "trl", "peft")}
    command.finish(options, {**result, "settings": settings})


def sized(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Reads the options, and puts the work that they mean among them as `work`. Everything here
    computes on one thread.
    """
    parser.add_argument("--rates", type=float, nargs="+", help=f"learning rates to sweep {RATES}")
    parser.add_argument(
        "--seeds", type=int, choices=range(1, len(SEEDS) + 1), help=f"seeds to run ({len(SEEDS)})"
    )
    parser.add_argument("--most-seconds", type=float, help="limit of a run's training, in seconds")
    parser.add_argument("--at-most", type=int, metavar="N", help="make no more than N runs")
    parser.add_argument("--gpu", action="store_true", help="both sides on CUDA; never run so far")
    parser.add_argument(
        "--vllm", action="store_true", help="with --gpu: TRL with colocated vLLM; never run so far"
    )
    options = parser.parse_args()
    if options.vllm and not options.gpu:
        parser.error("--vllm needs --gpu")
    if options.gpu:
        import torch  # now: without it the parent stays small

        if not torch.cuda.is_available():
            parser.error("--gpu needs a CUDA device, and there is none")
    os.environ["OMP_NUM_THREADS"] = "1"
    work = replace(QUICK if options.quick else WORK, gpu=options.gpu, vllm=options.vllm)
    options.work = replace(work, most_seconds=options.most_seconds or work.most_seconds)
    options.rates = options.rates or (RATES[:1] if options.quick else RATES)
    options.seeds = options.seeds or (1 if options.quick else len(SEEDS))
    if options.quick:
        options.runs = options.runs / "quick"
    return options


if __name__ == "__main__":
    main()
