"""The `swarm-node` command as a user starts it: real processes, of this interpreter."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from swarm_node.settings.command_line import from_command_line
from tests import preloaded

ENDS_SECONDS = 600.0  # only a command that hangs takes so long


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "swarm_node.commands.cli", *map(str, arguments)]


def resolve(kind: Any, file: Path | None, environment: Mapping[str, str]) -> Any:
    """The configuration of a command that is started without flags, with these variables alone."""
    with patch.dict(os.environ, environment, clear=True):
        return from_command_line(kind, [str(file)] if file else [], "swarm-node")


def ended(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs the command to its end, whatever its exit code. torch is loaded already, unless
    `preexec_fn` limits it.
    """
    line = command(*arguments)
    if "preexec_fn" not in options:
        line[:1] = preloaded.python()
    return subprocess.run(
        line, capture_output=True, text=True, timeout=ENDS_SECONDS, check=False, **options
    )


def ended_well(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs the command as `ended` does, and asserts that it ends with 0."""
    done = ended(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def python(*words: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs this interpreter to its end, with nothing loaded before."""
    line = [sys.executable, *map(str, words)]
    return subprocess.run(
        line, capture_output=True, text=True, timeout=ENDS_SECONDS, check=False, **options
    )


def started(
    *arguments: object, program: Sequence[str] = (), loaded: bool = False, **options: Any
) -> "subprocess.Popen[str]":
    """Starts the command and leaves it running. Its output and errors come through one pipe by
    default. `program`: what to start in place of this interpreter. `loaded`: torch is loaded
    already, and the process is a launcher.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    line = [*program, *map(str, arguments)] if program else command(*arguments)
    if loaded:
        line[:1] = preloaded.python()
    return subprocess.Popen(line, text=True, **{**streams, **options})


@contextmanager
def killed_in_the_end(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """Kills a started process in the end, and closes its pipes."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def page_of(process: "subprocess.Popen[str]") -> httpx.URL:
    """The address that a command with a page prints, with the token behind its #."""
    assert process.stdout is not None
    return httpx.URL(
        next(line for line in process.stdout if line.startswith("page: ")).split(": ", 1)[1].strip()
    )


def read_until(process: "subprocess.Popen[str]", text: str) -> None:
    """Reads the output of the process up to the line with `text`."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return
    raise AssertionError(f"{text!r} never came: {''.join(seen)}")
