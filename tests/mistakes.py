"""Wrong invocations of `swarm-node`, and what is wrong with the answers to them.

They are listed in core.txt, more.txt and everyday.txt of tests/data/mistakes. A line
is `EXIT CODE | what is typed, as sh reads it | words of the answer`. Lines below `---` cannot be
tried within the process of the tests. The files that they name lie in the same folder.

A user types them all into a shell. There, the start of the program takes most of the time, five
seconds with torch: an hour for all of them. So those above `---` are typed where the shell finds a
`swarm-node` that starts in a process which has torch loaded already (preloaded.py).
"""

import atexit
import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest

from swarm_node.commands.cli import outcome
from tests import preloaded

FOLDER = Path(__file__).parent / "data" / "mistakes"
SECONDS = 600.0  # only a command that hangs takes so long
CHARS = 400  # in a line of the answer
PIECES = 4  # of each list, as a piece that fails is tried again


@dataclass(frozen=True)
class Mistake:
    """One wrong invocation, and its right answer."""

    code: int
    typed: str
    words: str
    inside: bool = True  # whether it can be tried within this process

    def __str__(self) -> str:
        return self.typed


@dataclass(frozen=True)
class Answer:
    """How a wrong invocation ended."""

    code: int
    out: str
    err: str


def listed(name: str) -> list[Mistake]:
    """The mistakes in the list of this name."""
    found, inside = list[Mistake](), True
    for line in (FOLDER / f"{name}.txt").read_text().splitlines():
        if line == "---":
            inside = False
        elif line and not line.startswith("#"):
            code, typed, words = line.split(" | ")
            found.append(Mistake(int(code), typed, words, inside))
    return found


def called(mistake: Mistake) -> Answer:
    """Tries the mistake within this process, in the current folder."""
    words = shlex.split(mistake.typed)
    start = words.index("swarm-node")
    variables = dict(word.split("=", 1) for word in words[:start])
    with (
        patch.dict(os.environ, variables),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        try:
            code = outcome(words[start + 1 :])
        except SystemExit as left:
            code = int(left.code or 0)
        except Exception:  # noqa: BLE001  a traceback is what is looked for
            err.write(traceback.format_exc())
            code = 1
    return Answer(code, out.getvalue(), err.getvalue())


def started(mistake: Mistake) -> Answer:
    """Tries the mistake as a user does, in the current folder."""
    return _typed(mistake, Path(sys.executable).parent)


def typed(mistake: Mistake) -> Answer:
    """Tries the mistake as a user does; the program starts with torch loaded already, where what is
    typed needs no more than its words and its folder.
    """
    return _typed(mistake, _program()) if mistake.inside else started(mistake)


@cache
def _program() -> Path:
    """A folder with a `swarm-node` that is a start of preloaded.py."""
    folder = Path(tempfile.mkdtemp(prefix="mistakes-"))
    atexit.register(shutil.rmtree, folder, True)
    program = folder / "swarm-node"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(preloaded.python())} -P -m swarm_node "$@"\n')
    program.chmod(0o755)
    return folder


def _typed(mistake: Mistake, program: Path) -> Answer:
    """Types the mistake where the shell finds `swarm-node` in this folder."""
    path = f"{program}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", mistake.typed],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Answer(ended.returncode, ended.stdout, ended.stderr)


def faults(
    mistakes: list[Mistake], attempt: Callable[[Mistake], Answer], folder: Path
) -> list[str]:
    """Tries each mistake in a new copy of the files. Returns those with a wrong answer, and the
    answer.
    """
    found = []
    for number, mistake in enumerate(mistakes):
        where = shutil.copytree(FOLDER, folder / str(number))
        # Not the user's own
        with chdir(where), patch.dict(os.environ, {"SWARM_NODE_HOME": "its_home"}):
            answer = attempt(mistake)
        if why := fault(mistake, answer):
            found.append(f"{mistake}: {why}: {(answer.err or answer.out)[-600:]}")
    return found


class Trials:
    """The tests of a list: a class of tests inherits them, and names the list."""

    name: str

    def inside(self) -> list[Mistake]:
        return [mistake for mistake in listed(self.name) if mistake.inside]

    def test_every_fifth_mistake_of_the_list_is_answered_in_one_line(self, tmp_path: Path) -> None:
        assert not (wrong := faults(self.inside()[::5], called, tmp_path)), wrong

    @pytest.mark.slow
    def test_every_other_mistake_of_the_list_is_answered_in_one_line(self, tmp_path: Path) -> None:
        others = [mistake for number, mistake in enumerate(self.inside()) if number % 5]
        assert not (wrong := faults(others, called, tmp_path)), wrong

    @pytest.mark.long
    @pytest.mark.parametrize("piece", range(PIECES))
    def test_every_mistake_is_answered_in_one_line_as_a_user_types_it(
        self, tmp_path: Path, piece: int
    ) -> None:
        assert not (wrong := faults(listed(self.name)[piece::PIECES], typed, tmp_path)), wrong


def fault(mistake: Mistake, answer: Answer) -> str:
    """What is wrong with the answer; "" where it is right."""
    lines = answer.err.strip().splitlines()
    if "Traceback" in answer.err:
        return "a traceback"
    if answer.code != mistake.code:
        return f"exit code {answer.code}, not {mistake.code}"
    if mistake.words not in answer.err + answer.out:
        return f"nothing of {mistake.words!r}"
    if (
        mistake.words
        and mistake.code in (2, 75)
        and not (len(lines) == 1 and lines[0].startswith("swarm-node: "))
    ):
        return f"{len(lines)} lines"
    return (
        f"a line of more than {CHARS} characters"
        if any(len(line) > CHARS for line in lines)
        else ""
    )
