"""An observer that shows its run on a page, in a process of its own. If that process fails, the
node goes on.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from swarm_node.common.children import OF_THE_USER, clean_environment
from swarm_node.common.errors import printable
from swarm_node.settings import BootstrapConfig, NodeConfig, Section
from swarm_node.settings.page import listening
from swarm_node.telemetry.events import Begun, Event, Telemetry

END_SECONDS = 3.0
LINE_CHARS = 400  # of a line that the page prints


def page(home: Path, config: Section, telemetry: Telemetry) -> "PageProcess | None":
    """Starts a page; None if none is asked for. UserError for a wrong address. A bootstrap node's
    page is public.
    """
    if not isinstance(config, NodeConfig | BootstrapConfig) or not config.page.listen:
        return None
    options = config.page
    listening(options.listen)  # a wrong address raises before a process starts
    public = options.public or isinstance(config, BootstrapConfig)
    command = [
        sys.executable,
        "-P",
        "-m",
        "swarm_node",
        "page",
        str(home),
        "--listen",
        options.listen,
        "--with-parent",
    ]
    command += ["--names", *options.names] if options.names else []
    command += [
        flag for flag, on in (("--public", public), ("--open-metrics", options.open_metrics)) if on
    ]
    return PageProcess(command, telemetry.show)


class PageProcess:
    """Starts when it is made and ends with the run. `show` gets the lines that the page prints:
    address and errors.
    """

    def __init__(self, command: list[str], show: Callable[[str], None]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches only the node, which ends the page
            env=clean_environment((*OF_THE_USER, "XDG_STATE_HOME")),
        )
        self._show, self._closing = show, threading.Event()

    def take(self, event: Event) -> None:
        if isinstance(event, Begun):
            threading.Thread(target=self._pass_on, daemon=True, name="page").start()

    def close(self) -> None:
        self._closing.set()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            # A confined node may not; its page ends as its input is closed
            with suppress(PermissionError):
                self._process.kill()
                self._process.wait()

    def _pass_on(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not self._closing.is_set():
                self._show(printable(line.rstrip("\n"), LINE_CHARS))
        if not self._closing.is_set():
            code = self._process.wait()
            self._show(
                f"the page has ended, exit code {code}; the node continues: swarm-node page starts "
                "another one"
            )
