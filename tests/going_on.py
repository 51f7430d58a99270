"""`pytest --go-on`: a run that was interrupted goes on, without the tests that passed at the same
commit.

The cache of pytest keeps what passed. A checkout with changes runs everything, and notes nothing.
"""

import subprocess
from pathlib import Path

import pytest

KEY = "going_on/passed"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--go-on", action="store_true", help="leave out what passed at this commit under --go-on"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--go-on") and (commit := _commit(config.rootpath)):
        config.pluginmanager.register(GoingOn(config, commit))


class GoingOn:
    def __init__(self, config: pytest.Config, commit: str) -> None:
        self._config = config
        self._commit = commit
        # Reports of xdist's workers all come to the controller
        self._writes = not hasattr(config, "workerinput")
        self._passed: list[str] = config.cache.get(KEY, {}).get(commit, [])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        done = [item for item in items if item.nodeid in self._passed]
        self._config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if item not in done]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._writes and report.when == "call" and report.passed:
            self._passed.append(report.nodeid)
            self._config.cache.set(KEY, {self._commit: self._passed})

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._passed and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK  # all of them passed before


def _commit(root: Path) -> str:
    """The commit of a checkout without changes; otherwise nothing."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()

    return "" if git("status", "--porcelain") else git("rev-parse", "HEAD")
