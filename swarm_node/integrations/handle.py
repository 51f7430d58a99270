"""`swarm_node.run`: `swarm-node run` in a process beside a script or a notebook, which holds a
RunningNode.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from swarm_node.api import configured
from swarm_node.common import channel, children
from swarm_node.common.errors import TemporaryError, UserError
from swarm_node.common.files import read_plain
from swarm_node.home.folder import owned
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_python
from swarm_node.telemetry.jsonlines import record_of


class RunningNode:
    """A node in a process of its own. It saves and ends when this process ends. See `run`."""

    def __init__(self, config: NodeConfig) -> None:
        self.home = config.home.expanduser()
        with owned(self.home):
            self._log, self._events = self.home / "output.log", self.home / "events.jsonl"
        # Bytes of events of earlier starts
        self._before = self._events.stat().st_size if self._events.exists() else 0
        command = [
            sys.executable,
            "-P",
            "-c",
            "from swarm_node.integrations.handle import _child; _child()",
        ]
        variables = {"OMP_WAIT_POLICY": "passive", **os.environ}
        self._process, self._line = children.start(command, self._log, variables)
        values = config.model_dump(exclude_unset=True)
        order = json.dumps({"values": values, "folder": _folder_of_the_script()}, default=_plain)
        self._line.sendall(f"{order}\n".encode())

    @property
    def round(self) -> int:
        """Rounds that are done, those of earlier starts included."""
        most = 0
        for event in self.events():
            last_round = event.get("report", {}).get("round", -1)
            most = max(most, event.get("rounds") or last_round + 1)
        return most

    @property
    def accuracy(self) -> float | None:
        """Share of held-out questions that were answered correctly, in [0, 1]; None before they
        were first asked.
        """
        measured = [each["reward"] for each in self.events() if each["event"] == "Validated"]
        return float(measured[-1]) if measured else None

    def events(self) -> list[dict[str, Any]]:
        """What has happened since the start, the oldest first, as docs/reference/events.md explains
        it.
        """
        if not self._events.exists():
            return []
        written = read_plain(self._events, follow=False)
        start = self._before if len(written) >= self._before else 0
        lines = written[start:].splitlines(keepends=True)
        # The node may be writing the last one
        records = (record_of(line) for line in lines if line[-1:] == b"\n")
        return [record for record in records if record]

    def wait(self) -> "RunningNode":
        """Waits until the node has ended. UserError with its last line, unless it finished or was
        stopped by Ctrl-C; TemporaryError where the cause may pass, or a signal ended it.
        """
        if (code := self._process.wait()) not in (0, 130):
            printed = self._log.read_text(errors="replace").strip().splitlines()
            last = printed[-1] if printed else children.ending(code)
            passing = code < 0 or code == os.EX_TEMPFAIL
            raise (TemporaryError if passing else UserError)(last.removeprefix("swarm-node: "))
        return self

    def stop(self) -> "RunningNode":
        """Stops the node as Ctrl-C does: it ends its round and saves. Waits until it has ended, as
        `wait` does.
        """
        self._process.send_signal(signal.SIGINT)
        return self.wait()

    def __repr__(self) -> str:
        how = "running" if self._process.poll() is None else "ended"
        return f"<node in {self.home}, {how}: round {self.round}, accuracy {self.accuracy}>"


def run(config: NodeConfig | Path | str | None = None, **options: Any) -> RunningNode:
    """Runs a whole node beside this program until `max_rounds`, `stop()`, or the end of this
    process. `config`: a configuration, a file, or the name of a shipped one; `options` change it.
    UserError, in one line, for a mistake.

    >>> node = run("starter", home="me", environment={"tasks": ["gcd/easy"]})
    """
    return RunningNode(configured(config, options))


def _plain(value: object) -> str:
    return str(value.get_secret_value() if isinstance(value, SecretStr) else value)


def _folder_of_the_script() -> str:
    """The folder of the program that the user started, whose modules its options may name; "" in a
    notebook or at a prompt.
    """
    file = getattr(sys.modules["__main__"], "__file__", None)
    return str(Path(file).absolute().parent) if file else ""


def _child() -> None:
    """The process of a RunningNode. The parent sends it the configuration; when the parent ends, it
    ends, too. It takes no module from the current folder, which may be a stranger's, and from the
    folder of the user's script only what is found nowhere else.
    """
    from swarm_node.commands.cli import leave, outcome
    from swarm_node.commands.run import begin

    line = channel.inherited().makefile("rb")
    order = json.loads(line.readline())
    if order["folder"]:
        sys.path.append(order["folder"])

    def end() -> None:
        line.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    leave(outcome([], lambda _: begin(from_python(NodeConfig, None, order["values"]))))
