"""When nodes come and go, by a recorded trace. For `lab.studies.hundred`.

    # for lab.studies.hundred --trace
    python -m lab.studies.churn peersim_session_100.txt --nodes 90 > churn.csv

That file records when each of 776 phones was on-line in 2014. It comes with a simulator of gossip
learning: github.com/ormandi/Gossip-Learning-Framework, commit 9f9d37f, res/trace. It is not part of
this project.
"""

import argparse
import csv
import sys
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

HOUR = 12  # hour of the recorded weeks at which the trace begins


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A node comes or goes."""

    second: float
    node: int
    there: bool


def recorded(file: Path, nodes: int, seconds: float) -> list[Change]:
    """The changes in a CSV file with the columns second, node (from 0) and there (1 comes, 0 goes),
    in order of time. All nodes are there at first. Rows of other nodes, and of later times, are
    left out.
    """
    with file.open(newline="") as lines:
        rows = [
            Change(float(row["second"]), int(row["node"]), row["there"] == "1")
            for row in csv.DictReader(lines)
        ]
    return sorted(row for row in rows if row.node < nodes and row.second < seconds)


def phones(file: Path, nodes: int, hour: int, seed: int) -> list[Change]:
    """The changes of `nodes` phones, drawn from those that were on-line when the given hour of
    their first recorded week began. A line of the file: name, 1 if the phone is on-line at first,
    when the week began, time zone, and how long it was on-line, off-line and so on, in ms.
    ValueError if there are fewer such phones.
    """
    weeks = dict[str, list[str]]()
    for line in file.read_text().splitlines():
        name, *week = line.split()
        weeks.setdefault(name, week)
    found = [
        changes
        for _, week in sorted(weeks.items())
        if (changes := _from(week, 3600.0 * hour)) is not None
    ]
    chosen = Random(f"phones/{seed}").sample(found, nodes)
    return sorted(
        Change(second, node, bool(number % 2))
        for node, changes in enumerate(chosen)
        for number, second in enumerate(changes)
    )


def _from(week: list[str], begin: float) -> list[float] | None:
    """Seconds after `begin` at which the phone goes, comes, and so on; None if it was off-line at
    `begin`.
    """
    ends = list(accumulate(int(span) / 1000 for span in week[3:]))
    passed = sum(end <= begin for end in ends)
    there = (week[0] == "1") == (passed % 2 == 0)
    # The last one is the end of the week
    return [end - begin for end in ends[passed:-1]] if there else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.studies.churn", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--nodes", type=int, default=90)
    options = parser.parse_args()
    lines = csv.writer(sys.stdout)
    lines.writerow(("second", "node", "there"))
    for change in phones(options.file, options.nodes, HOUR, seed=0):
        lines.writerow((round(change.second, 1), change.node, int(change.there)))


if __name__ == "__main__":
    main()
