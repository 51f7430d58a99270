"""`pytest --spent N`: the N files whose tests took longest, with the seconds of each.

Setting a test up counts, too. With several workers the seconds add up to more than the run took.
"""

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spent", metavar="N", type=int, default=0, help="name the N slowest files")


def pytest_configure(config: pytest.Config) -> None:
    count = config.getoption("--spent")
    # Reports of xdist's workers all come to the controller
    if count and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Spent(count))


class Spent:
    """Adds up what the tests of each file took."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        total = sum(self._seconds.values())
        terminalreporter.section(f"{total:.0f} s of tests, the slowest files")
        for file, seconds in self._seconds.most_common(self._count):
            terminalreporter.line(f"{seconds:7.1f} s  {file}")
