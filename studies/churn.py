"""Who comes and goes when: a recorded trace from a file, or a synthetic one. For `studies.hundred`."""

import csv
from dataclasses import dataclass
from pathlib import Path
from random import Random

SHAPE = 0.5  # of the Weibull distribution of sessions: many short ones, few long ones
ABSENT_SHARE = 0.15  # of the time; how long each absence is follows an exponential distribution


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A node comes or goes."""

    second: float
    node: int
    there: bool


def synthetic(nodes: int, seconds: float, mean_session: float, seed: int) -> list[Change]:
    """Everybody is there at first. Sessions have a mean of so many seconds; no system was observed for this."""
    rng, changes = Random(f"churn/{seed}"), list[Change]()
    scale = mean_session / 2  # the mean of a Weibull distribution of shape 1/2 is twice its scale
    absent = mean_session * ABSENT_SHARE / (1 - ABSENT_SHARE)
    for node in range(nodes):
        now, there = rng.weibullvariate(scale, SHAPE), False
        while now < seconds:
            changes.append(Change(now, node, there))
            now += rng.expovariate(1 / absent) if not there else rng.weibullvariate(scale, SHAPE)
            there = not there
    return sorted(changes)


def recorded(file: Path, nodes: int, seconds: float) -> list[Change]:
    """Of a CSV file with the columns second, node (from 0) and there (1 comes, 0 goes); everybody is there at first.
    Rows of other nodes, and of later times, are left out."""
    with file.open(newline="") as lines:
        rows = [Change(float(row["second"]), int(row["node"]), row["there"] == "1") for row in csv.DictReader(lines)]
    return sorted(row for row in rows if row.node < nodes and row.second < seconds)
