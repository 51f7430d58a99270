"""Mutated inputs over every decoder and handler that a stranger's bytes reach: nothing is raised,
nothing is admitted that nobody signed or that has a second spelling, nothing hangs, and memory
stays flat.

    python -m lab.fuzzing.fuzz --inputs 1000000 --json        # docs/results/security.md

Feedback is by outcome: an input that makes a target do what it never did before joins the seeds.
Coverage by line would cost more than it finds here, since decoding ends in pydantic and in C.
"""

import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from lab.benchmarks import command
from lab.fuzzing.mutation import mutate
from lab.fuzzing.targets import Target, targets

PATIENCE = 5  # seconds of CPU for one input
KEPT = 64  # inputs that are changed further, by target


class Hang(BaseException):
    pass


@dataclass(slots=True)
class Tally:
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    raised: int = 0
    admitted: int = 0  # inputs admitted that nobody signed, or in a second spelling
    failures: list[str] = field(default_factory=list)  # input and what was wrong
    slowest: float = 0.0  # seconds


def fuzz(name: str, target: Target, inputs: int, seed: int) -> Tally:
    """Runs a target on its seeds, then on mutated inputs, `inputs` in all. Whatever the target
    raises is a failure.
    """
    rng, tally = Random(f"{seed}/{name}"), Tally()
    kept = list(target.seeds)
    for data in kept:
        _try(target, data, tally)
    while tally.inputs < inputs:
        data = target.dress(
            rng, mutate(rng, rng.choice(kept), kept) if rng.random() < 0.9 else rng.choice(kept)
        )
        known = len(tally.outcomes)
        _try(target, data, tally)
        if len(tally.outcomes) > known and len(kept) < KEPT:
            kept.append(data)
    return tally


def _try(target: Target, data: bytes, tally: Tally) -> None:
    tally.inputs += 1
    began = time.process_time()
    signal.alarm(PATIENCE * 4)
    try:
        tally.outcomes[target.run(data)] += 1
    except (Exception, Hang) as error:  # noqa: BLE001
        tally.admitted += isinstance(error, AssertionError)
        tally.raised += not isinstance(error, AssertionError)
        if len(tally.failures) < 10:
            tally.failures.append(f"{type(error).__name__}: {error} on {data[:200]!r}")
    finally:
        signal.alarm(0)
    tally.slowest = max(tally.slowest, time.process_time() - began)


def run(inputs: int, seed: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """`inputs` in all, the same number for each target, in ten passes, so that growth shows."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    chosen = {name: target for name, target in targets().items() if not only or name in only}
    tallies: dict[str, Tally] = {name: Tally() for name in chosen}
    memory, passes = [], 10
    try:
        for number in range(passes):
            for name, target in chosen.items():
                part = fuzz(
                    name, target, ceil(inputs / len(chosen) / passes), seed * passes + number
                )
                _add(tallies[name], part)
            memory.append(rss_mb())
    finally:
        signal.signal(signal.SIGALRM, before)
    return {
        "inputs": sum(tally.inputs for tally in tallies.values()),
        "raised": sum(tally.raised for tally in tallies.values()),
        "admitted": sum(tally.admitted for tally in tallies.values()),
        "failures": {name: tally.failures for name, tally in tallies.items() if tally.failures},
        "rss_mb": memory,
        "rss_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "targets": {
            name: {
                "inputs": tally.inputs,
                "outcomes": len(tally.outcomes),
                "accepted": sum(
                    n for label, n in tally.outcomes.items() if label in ("ok", "read", "scores")
                ),
                "slowest_ms": round(1000 * tally.slowest, 1),
            }
            for name, tally in tallies.items()
        },
    }


def _add(total: Tally, part: Tally) -> None:
    total.inputs += part.inputs
    total.outcomes += part.outcomes
    total.raised += part.raised
    total.admitted += part.admitted
    total.failures += part.failures
    total.slowest = max(total.slowest, part.slowest)


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def main() -> None:
    parser = command.parser("lab.fuzzing.fuzz", __doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="*", default=[])
    options = parser.parse_args()
    result = run(options.inputs, options.seed, options.targets)
    lines = [
        [name, *(str(value) for value in row.values())] for name, row in result["targets"].items()
    ]
    command.show(["target", "inputs", "outcomes", "accepted", "slowest, ms"], lines)
    print(f"{result['inputs']} inputs, {result['raised']} raised, {result['admitted']} admitted")
    print(f"memory after each tenth {result['rss_mb']}, at most {result['rss_peak_mb']:.1f} MB")
    for name, failures in result["failures"].items():
        print(f"{name}: " + "\n    ".join(failures))
    command.finish(options, result)


if __name__ == "__main__":
    main()
