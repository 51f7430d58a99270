"""Who comes and goes when: a recorded trace from a file, or a synthetic one. For `lab.studies.hundred`.

    python -m lab.studies.churn peersim_session_100.txt --nodes 90 > churn.csv      # for lab.studies.hundred --trace

That file is a record of 776 phones in 2014, when each was on-line and when not, which a simulator of gossip learning
brings along: github.com/ormandi/Gossip-Learning-Framework, commit 9f9d37f, res/trace. It is not part of this project.
"""

import argparse
import csv
import sys
from dataclasses import dataclass
from itertools import accumulate
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


def phones(file: Path, nodes: int, hour: int, seed: int) -> list[Change]:
    """So many phones of those that were on-line when the given hour of their first recorded week began. A line of the
    file: name, 1 if it is on-line at first, when the week began, time zone, and how long it was on-line, off-line and
    so on, in ms. ValueError where there are fewer."""
    weeks = dict[str, list[str]]()
    for line in file.read_text().splitlines():
        name, *week = line.split()
        weeks.setdefault(name, week)
    found = [changes for _, week in sorted(weeks.items()) if (changes := _from(week, 3600.0 * hour)) is not None]
    chosen = Random(f"phones/{seed}").sample(found, nodes)
    return sorted(
        Change(second, node, bool(number % 2))
        for node, changes in enumerate(chosen)
        for number, second in enumerate(changes)
    )


def _from(week: list[str], begin: float) -> list[float] | None:
    """Seconds after `begin` at which it goes, comes, and so on; None if it was not there."""
    ends = list(accumulate(int(span) / 1000 for span in week[3:]))
    passed = sum(end <= begin for end in ends)
    there = (week[0] == "1") == (passed % 2 == 0)
    return [end - begin for end in ends[passed:-1]] if there else None  # the last is that of the week


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.studies.churn", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--nodes", type=int, default=90)
    parser.add_argument("--hour", type=int, default=12, help="of the recorded weeks, at which the trace begins")
    parser.add_argument("--hours", type=float, default=1.0, help="how long it is")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    lines = csv.writer(sys.stdout)
    lines.writerow(("second", "node", "there"))
    for change in phones(options.file, options.nodes, options.hour, options.seed):
        if change.second < 3600 * options.hours:
            lines.writerow((round(change.second, 1), change.node, int(change.there)))


if __name__ == "__main__":
    main()
