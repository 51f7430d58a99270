"""Forty bugs, put into the code one at a time: which of them do the tests catch?

    python -m lab.seeded_bugs [--commit COMMIT] [--only TEXT] [--limit SECONDS] [--json] [--list]

Each bug has at most four minutes. Its outcome is added to runs/seeded_bugs/COMMIT.jsonl. A bug with
an outcome there is not tried again, so a new call continues after an interruption. Only a bug that
ran out of time is tried again.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

from lab.benchmarks.command import ROOT, finish, parser, show
from lab.seeded_bugs.hunt import (
    BUGS,
    LATE,
    Bug,
    change,
    hunt,
    installed,
    load,
    of_tree,
    plain,
    worktree,
)

RUNS = Path("runs", "seeded_bugs")


def main() -> None:
    made = parser("lab.seeded_bugs", __doc__)
    made.add_argument("--commit", default="HEAD", help="whose code and tests (HEAD)")
    made.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="bugs with this in their names"
    )
    made.add_argument(
        "--limit", type=float, default=240.0, metavar="SECONDS", help="for one bug (240)"
    )
    made.add_argument(
        "--list", action="store_true", help="print the names of the bugs, and do no more"
    )
    options = made.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` removes the tree
    bugs = [
        bug
        for bug in load(BUGS)
        if not options.only or any(text in bug.name for text in options.only)
    ]
    if options.list:
        print("\n".join(dict.fromkeys(bug.name for bug in bugs)))
        return
    began = monotonic()
    asked = ["git", "-C", str(ROOT), "rev-parse", "--verify", f"{options.commit}^{{commit}}"]
    commit = subprocess.check_output(asked, text=True).strip()
    file = ROOT / RUNS / f"{commit}.jsonl"
    hunt_all(bugs, commit, file, options.limit)
    done = known(file, bugs)
    missed = [name for name in dict.fromkeys(bug.name for bug in bugs) if not done[name]["caught"]]
    rows = [
        [name, "yes" if each["caught"] else "no", each["by"] or each["note"]]
        for name, each in done.items()
    ]
    show(["bug", "caught", "by"], rows)
    seconds = {
        "seconds": round(monotonic() - began, 1),
        "seconds_of_all": sum(it["seconds"] for it in done.values()),
    }
    finish(
        options, {"commit": commit, "caught": len(done) - len(missed), "missed": missed, **seconds}
    )
    if missed:
        sys.exit(f"{len(missed)} of {len(done)} bugs were not caught")


def hunt_all(bugs: list[Bug], commit: str, file: Path, limit: float) -> None:
    """Tries every bug that has no outcome in `file`, or ran out of time, and adds its outcome."""
    done = known(file, bugs)
    left = [bug for bug in bugs if bug.name not in done or done[bug.name]["note"] == LATE]
    if not left:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with worktree(ROOT, commit) as tree, file.open("a") as results:
        spelt = of_tree(left, tree)
        if gone := [name for name, bug in spelt.items() if bug is None]:
            sys.exit(f"these lines are not in {commit} exactly once: {'; '.join(gone)}")
        python = installed(tree)
        for bug in filter(None, spelt.values()):
            outcome = hunt(bug, tree, python, limit)
            results.write(json.dumps(plain(outcome)) + "\n")
            results.flush()
            print(
                f"{outcome.seconds:6.1f} s  {bug.name}: {outcome.by or 'MISSED, ' + outcome.note}",
                flush=True,
            )


def known(file: Path, bugs: list[Bug]) -> dict[str, dict[str, Any]]:
    """The last outcome in `file` of each of these bugs, by name. Outcomes of bugs changed since do
    not count.
    """
    lines = file.read_text().splitlines() if file.exists() else []
    changes = {change(bug) for bug in bugs}
    return {each["name"]: each for each in map(json.loads, lines) if each["change"] in changes}


if __name__ == "__main__":
    main()
