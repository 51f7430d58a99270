"""`pytest --no-skips-but gpu`: every skipped test is named, and a skip without the marker `gpu`
fails the run.

A machine that is meant to run everything must not pass because half of it did not run.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips-but", metavar="MARKER", help="fail if a test without this marker was skipped"
    )


def pytest_configure(config: pytest.Config) -> None:
    allowed = config.getoption("--no-skips-but")
    # Reports of xdist's workers all come to the controller
    if allowed and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(allowed))


class Skips:
    def __init__(self, allowed: str) -> None:
        self._allowed = allowed
        self._seen: dict[str, tuple[bool, str]] = {}  # by test, or file that was skipped as a whole

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._unwanted() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("skipped")
        for name, (_, reason) in sorted(self._seen.items()):
            terminalreporter.line(f"{name}: {reason}")
        if self._unwanted():
            terminalreporter.line(
                f"{self._unwanted()} of these must run here: they are not marked {self._allowed!r}"
            )

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = (
                report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            )
            # A file that was skipped as a whole has none
            marked = self._allowed in getattr(report, "keywords", ())
            self._seen[report.nodeid] = (marked, reason.removeprefix("Skipped: "))

    def _unwanted(self) -> int:
        return sum(not allowed for allowed, _ in self._seen.values())
