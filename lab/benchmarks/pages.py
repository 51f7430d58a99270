"""The pages of the documentation as a reader follows them, for `lab.benchmarks.tutorials` and for
the tests.

Three kinds of blocks on a page count. A `bash` block holds commands, one a line. A block with
`title="NAME.SUFFIX"` is a file that the reader saves. A `bash` block titled `second computer` is
typed on that computer, one with any other title in a terminal of the first. A node without
`--max-rounds`, and a bootstrap node, run on until the text says Ctrl-C, or to the end of the page.
All else on a page is for reading.

Commands that cannot be typed as they stand are replaced or left out: SUBSTITUTIONS, SHORTER and
NOT_RUN say why.
"""

import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab.benchmarks.waiting import until
from protocol.identity import Identity
from swarm_node.policy.named import KNOWN, OF_HUB, folder, is_whole

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS, HOW_TO = ROOT / "docs" / "tutorials", ROOT / "docs" / "how-to"
FIRST, SECOND = "first computer", "second computer"
READY_SECONDS = 300.0  # the machine may be busy
COMMAND_SECONDS = 1800.0
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
RUNS_ON = re.compile(
    r"^(?:\w+=\S+ )*swarm-node(?: run\b| join\b| bootstrap\b| --(?!version)|$)(?!.*--max-rounds)"
)
# Exit codes; 1: the node trains alone, as without a network
ENDS_WITH = {"swarm-node doctor": (0, 1)}


@dataclass(frozen=True)
class Saved:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """A command that the reader types."""

    command: str
    computer: str = FIRST


@dataclass(frozen=True)
class Stopped:
    """Ctrl-C in each terminal in which a node runs."""


class Done(NamedTuple):
    """A command as it was run, after replacements."""

    command: str
    seconds: float  # until it ended, or a node that runs on was ready
    cpu: float  # CPU seconds of the processes that ended meanwhile, their children included


CTRL_C = "Ctrl-C"  # stands for a command where the nodes that ran on were ended


def steps(page: str) -> Iterator[Saved | Typed | Stopped]:
    """The steps of a reader of the page, in order."""
    end = 0
    for found in BLOCK.finditer(page):
        if "Ctrl-C" in page[end : found.start()]:
            yield Stopped()
        end = found.end()
        language, title, text = found.groups()
        if language == "bash":
            computer = SECOND if title == SECOND else FIRST
            yield from (Typed(line, computer) for line in lines(text))
        elif title:
            yield Saved(title, text)


def lines(block: str) -> list[str]:
    """The commands of a block; one may go over several lines."""
    whole = re.sub(r"\\\n\s*", "", block).splitlines()
    return [line for line in whole if line.strip() and not line.startswith("#")]


@dataclass
class Reader:
    """Follows pages in a folder of its own, with a home on each of two computers."""

    folder: Path
    path: str  # where `swarm-node` and `python` are found
    model: Path  # stands for models of the Hub
    shorter: bool = False  # fewer rounds, seeds and questions than the pages say
    installs: bool = False  # pip and venv are run, too
    wheel: Path | None = None  # stands for the checkout in `pip install .`
    environment: Mapping[str, str] = field(default_factory=dict)
    _running: list[tuple[str, "subprocess.Popen[bytes]"]] = field(default_factory=list)

    def follow(self, page: Path) -> list[Done]:
        """Every command that was run. Raises AssertionError if a command fails."""
        done: list[Done] = []
        try:
            for step in steps(page.read_text(encoding="utf-8")):
                match step:
                    case Saved(name, written):
                        text = self.replaced(written)
                        for computer in (FIRST, SECOND):
                            file = self.home(computer) / name
                            file.parent.mkdir(parents=True, exist_ok=True)
                            file.write_text(text, encoding="utf-8")
                    case Stopped():
                        done.append(timed(CTRL_C, self.stop))
                    case Typed(written, computer) if not left_out(written, self.installs):
                        command = self.replaced(written)
                        done.append(timed(command, partial(self.type, command, computer)))
            done.append(timed(CTRL_C, self.stop))
        finally:
            self.stop()
        return done

    def home(self, computer: str) -> Path:
        """The home and working folder of the computer, made if it is missing."""
        folder = self.folder / computer.split()[0]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def replaced(self, command: str) -> str:
        """The command with every substitution made."""
        for pattern, by, _ in (*SUBSTITUTIONS, *(SHORTER if self.shorter else ())):
            command = re.sub(pattern, lambda found, by=by: by(self, found), command)  # type: ignore[misc]
        return command

    def type(self, command: str, computer: str) -> None:
        home = self.home(computer)
        environment = {**os.environ, **self.environment, "HOME": str(home), "PATH": self.path}
        line = ["bash", "-euo", "pipefail", "-c", command]
        if RUNS_ON.match(command):
            line[-1] = f"exec {command}" if not re.match(r"\w+=", command) else command
            log = home / "output.txt"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    line, cwd=home, env=environment, stdout=output, stderr=subprocess.STDOUT
                )
            self._running.append((command, process))
            until(
                lambda: process.poll() is not None or ready(log.read_text()),
                READY_SECONDS,
                f"{command}: a round",
            )
            assert process.poll() is None, f"{command}: {log.read_text()}"
            return
        done = subprocess.run(
            line,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        good = next(
            (codes for start, codes in ENDS_WITH.items() if command.startswith(start)), (0,)
        )
        assert done.returncode in good, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"

    def stop(self) -> None:
        """Sends Ctrl-C to all that runs. Raises AssertionError if a process ends with another exit
        code than 0.
        """
        running, self._running = self._running, []
        for _, process in running:
            process.send_signal(signal.SIGINT)
        codes = {command: process.wait(READY_SECONDS) for command, process in running}
        assert not any(codes.values()), codes

    def address(self) -> str:
        """The address of the node that runs on the first computer; if none runs, an address at
        which nobody listens.
        """
        for file in sorted(self.home(FIRST).glob("*/addresses")) + sorted(
            self.home(FIRST).glob(".*/addresses")
        ):
            if self._running and (found := file.read_text().split()):
                return found[0]
        return f"/ip4/127.0.0.1/tcp/9/p2p/{Identity.from_seed_bytes(bytes(32)).peer_id}"

    def code(self) -> str:
        """The invite code with which others join the node that runs on the first computer."""
        environment = {
            **os.environ,
            **self.environment,
            "HOME": str(self.home(FIRST)),
            "PATH": self.path,
        }
        line = ["bash", "-c", "swarm-node invite"]
        return subprocess.run(
            line, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    def newest(self, folder: str) -> str:
        """The last checkpoint in this folder of the first home."""
        return max(found.name for found in (self.home(FIRST) / folder).iterdir())


def timed(command: str, act: Callable[[], None]) -> Done:
    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    began, before = time.monotonic(), cpu()
    act()
    return Done(command, time.monotonic() - began, cpu() - before)


def ready(output: str) -> bool:
    """Whether a node with this output has ended two rounds or, as a bootstrap node, printed its
    address.
    """
    return len(re.findall(r"^round \d+ ", output, re.MULTILINE)) > 1 or any(
        line.startswith("/ip") for line in output.splitlines()
    )


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def at_most(limit: int) -> Callable[[Reader, "re.Match[str]"], str]:
    """A replacement of the number in an option by `limit`, if it is larger."""
    return lambda reader, found: f"{found[1]}{min(limit, int(found[2]))}"


Replacement = tuple[str, Callable[[Reader, "re.Match[str]"], str], str]

SUBSTITUTIONS: Sequence[Replacement] = (
    (
        r"/ip4/[\d.]+/tcp/\d+/p2p/12D3KooW\.\.\.",
        lambda reader, _: reader.address(),
        "addresses of others: a node here",
    ),
    (r"swarm:\w+\.\.\.", lambda reader, _: reader.code(), "codes of others: a node here"),
    (r"(port )31330\b", lambda _, found: f"{found[1]}{free_port()}", "a port that is free here"),
    (
        r"(0\.0\.0\.0:)8080\b",
        lambda _, found: f"{found[1]}{free_port()}",
        "a port that is free here",
    ),
    (r"(?<= )configs/", lambda _, __: f"{ROOT}/configs/", "files of the checkout, from its folder"),
    (
        r"\bHuggingFaceTB/[\w.-]+|(?<!\S)\./my-model",
        lambda reader, _: str(reader.model),
        "models of the Hub: a folder",
    ),
    (
        r"\bsmollm2-135m(?!-)\b",
        lambda *_: next((name for name in KNOWN if is_whole(folder(name))), OF_HUB),
        "where no Hub answers: the same model of an installed package",
    ),
    (
        r"\.venv/share/swarm-node",
        lambda *_: str(ROOT),
        "where an install keeps its files: the checkout has them too",
    ),
    (
        r"(network\.host )10\.8\.0\.2",
        lambda _, found: f"{found[1]}127.0.0.1",
        "the address of a VPN: this machine",
    ),
    (
        r"(pip install .*) \.(?=\s|$)",
        lambda reader, found: f"{found[1]} {reader.wheel}",
        "the checkout: its wheel",
    ),
)
SHORTER: Sequence[Replacement] = (
    (r"(--(?:max-)?rounds |max_rounds=)(\d+)", at_most(4), "rounds"),
    (r"(--seeds )(\d+)", at_most(1), "seeds"),
    (r"(--nodes )(\d+)", at_most(3), "nodes"),
    (r"(--arms \S+ \S+)(?: \d+/\d+)+", lambda _, found: found[1], "arms"),
    (
        r"(swarm-node simulate (?!.*--arms).*)$",
        lambda _, found: f"{found[1]} --arms 4/4",
        "one arm, where a page names none",
    ),
    (r"(--questions )(\d+)", at_most(4), "questions"),
    (r"(--validation.every )(\d+)", at_most(2), "rounds between validations"),
    (
        r"~/(\S+/)\d{8}\b",
        lambda reader, found: f"~/{found[1]}{reader.newest(found[1])}",
        "the last checkpoint",
    ),
    (
        r"((?:die|join) \d)@\d+",
        lambda _, found: f"{found[1]}@3",
        "rounds in which nodes die and join",
    ),
)
NOT_RUN: Sequence[tuple[str, str]] = (
    (
        r"(GRAFANA_PASSWORD=\S+ )?docker |nvidia-ctk |export SWARM_NODE_",
        "Docker: the checks in docker/ do",
    ),
    (
        r"swarm-node check configs/",
        "reads a model's shape from the Hub: tests/core/policy/test_plan.py plans each",
    ),
    (r"swarm-node contribute", "needs a server or a person: tests/swarm/test_how_to.py has both"),
    (
        r"swarm-node \w+ .*examples/(?:questions|taskset)",
        "needs files of the checkout: tests/swarm/test_how_to.py",
    ),
    (r"swarm-node model push", "needs a hub: tests/swarm/test_how_to.py has one"),
    (
        r"swarm-node (?:run|model export) .*--home runs/out\b",
        "tests/swarm/test_how_to.py runs it and goes on to a hub",
    ),
    (r"python examples/trl", "needs TRL, and minutes: tests/core/integrations/test_trl.py"),
    (
        r"swarm-node page",
        "serves until it is stopped: tests/core/page and tests/core/browser",
    ),
    (
        r"ray start|swarm-node simulate .*--engine ray|pip install 'textswarm\[ray\]'",
        "needs a Ray cluster: tests/core/simulation/test_ray.py has one",
    ),
    (r"kubectl ", "needs a cluster: tests/house/test_deploy.py checks the manifests"),
    (
        r"systemctl |/opt/|(?:cp|mkdir) .*/etc/|cat /var/lib/",
        "changes the system: tests/house/test_deploy.py checks the units",
    ),
    (r"git ", "needs the network"),
    (r"make |PIP_EXTRA_INDEX_URL=\S+ make ", "installs this checkout: .ci/run does"),
    (r"hf ", "downloads from the Hub"),
)
# lab.benchmarks.tutorials runs these, the tests do not
INSTALLS = r"pip |python3 -m venv |\. \.venv/bin/activate"


def left_out(command: str, installs: bool) -> str:
    """Why a command is not run; "" if it is run."""
    reason = next((why for pattern, why in NOT_RUN if re.match(pattern, command)), "")
    return reason or ("" if installs or not re.match(INSTALLS, command) else "installs")
