"""Both ends of a process that reads questions, tells the node facts about them, and ends at once.
So the node never imports a reader of Parquet or somebody's code, and never holds a row.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from swarm_node.common.children import ChildKilled, ran, run_within
from swarm_node.common.errors import TemporaryError, UserError, exit_code, last_line
from swarm_node.settings.secret import revealed

SECONDS = 600.0  # to read a file, or to load it from the network

Facts = dict[str, Any]


def ask(
    module: str, config: BaseModel, out: Path | None, what: str, environment: Mapping[str, str]
) -> str:
    """The facts that `module` finds, as JSON. It writes the questions to `out`, if given. `what`
    names the source in errors, such as data set FILE. UserError: one line; TemporaryError where the
    cause may pass.
    """
    command = [sys.executable, "-P", "-m", module]
    asked = {"config": revealed(config), "out": str(out or "")}

    def run() -> "subprocess.CompletedProcess[str]":
        return run_within(SECONDS, command, json.dumps(asked), env=environment)

    try:
        done = ran(f"{what}: the process that reads it", run)
    except ChildKilled as error:
        if error.code == -signal.SIGKILL:
            raise
        raise TemporaryError(
            f"{what}: signal {-error.code} ended the process that reads it: use another file, or "
            "write it again"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"reading {what} takes more than {SECONDS:.0f} s: use only a part of it, or check that "
            "its code does not run forever"
        ) from error
    if done.returncode:
        last = last_line(done.stderr, 400) or "it cannot be read"
        kind = TemporaryError if done.returncode == os.EX_TEMPFAIL else UserError
        raise kind(last if what.rpartition(" ")[2] in last else f"{what}: {last}")
    facts: str = done.stdout
    return facts


def answer(compiled: Callable[[Any, str], Facts]) -> None:
    """What the child process does that reads a file: it reads the order from stdin and writes the
    facts to stdout. On a UserError it writes one line to stderr and ends with exit code 75 or 2
    (`exit_code`).
    """
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not mix with the facts
    asked = json.load(sys.stdin)
    try:
        facts = compiled(asked["config"], asked["out"])
    except UserError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(exit_code(error))
    with os.fdopen(out, "w") as stream:
        json.dump(facts, stream)
