"""Commit 861d7f36, of which tests/data has what its users had. `lab.benchmarks.earlier` runs it."""

from functools import partial

from lab.benchmarks import earlier
from lab.benchmarks.command import ROOT

COMMIT = "861d7f365867dc0bc307492221297604813d5755"  # the last before the format of today
SHORT = COMMIT[:8]
DATA = ROOT / "tests" / "data" / SHORT

is_here = partial(earlier.is_here, COMMIT)
unpacked = partial(earlier.unpacked, commit=COMMIT)
