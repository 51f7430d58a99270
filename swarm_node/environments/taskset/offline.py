"""What a task may use of a runtime where there is none: files in memory, and Python scripts that
print what follows from their arguments.

The library verifiers gives the hooks of a task (its setup, its rewards) a runtime: a container, or
a process with files and a network. Some rewards use this runtime only to run a script of their own,
for instance one that compares two formulas. Such a script needs neither files nor a network, since
what it prints follows from its arguments. So this module runs the script inside the process that
scores, with the packages that are installed. No peer could replay anything else that a hook asks of
the runtime. Such a request raises `OutOfReach`, and the message that refuses the task set names
what was asked for.
"""

import contextlib
import functools
import hashlib
import io
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from types import CodeType
from typing import Any

_METADATA = re.compile(r"(?m)^# /// script$\s(?P<lines>(^#(| .*)$\s)+)^# ///$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INTERPRETER = "offline-script"  # the first part of a command that `prepare_uv_script` returns


class OutOfReach(AttributeError):
    """A hook of a task asked for a part of a runtime that no peer could replay. An AttributeError,
    so that a hook may look whether a runtime has that part.
    """


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a script ended: the fields of the class of that name in verifiers."""

    exit_code: int
    stdout: str
    stderr: str


class OfflineRuntime:
    """Stands in for a runtime of verifiers.

    Attributes:
        files: those that were written, by path.
        wanted: what a hook asked for that is out of reach; empty while there was nothing.
        packages: the packages that scripts need, with the versions that are installed here.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.wanted = ""
        self.packages: dict[str, str] = {}
        self._scripts: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> Any:
        """Nothing else: raises OutOfReach, and remembers the name."""
        if not name.startswith("__"):
            self.wanted = name
        raise OutOfReach(f"there is no runtime here, so no runtime.{name}")

    async def write(self, path: str, data: bytes) -> None:
        """Keeps a file in memory."""
        self.files[path] = bytes(data)

    async def read(self, path: str, max_bytes: int | None = None) -> bytes:
        """A file that was written before. FileNotFoundError; ValueError where it is longer than
        `max_bytes`.
        """
        if path not in self.files:
            raise FileNotFoundError(path)
        data = self.files[path]
        if max_bytes is not None and len(data) > max_bytes:
            raise ValueError(f"read {path!r}: over the {max_bytes} byte limit")
        return data

    async def prepare_uv_script(
        self, script: str | bytes, env: Mapping[str, str] | None = None, *, activate: bool = True
    ) -> list[str]:
        """A command for `run`. OutOfReach where a package that the script needs is not installed
        here.
        """
        data = script.encode() if isinstance(script, str) else script
        self.packages |= self._installed(needed_packages(data))
        name = hashlib.sha256(data).hexdigest()
        self._scripts[name] = data
        return [_INTERPRETER, name]

    async def run_uv_script(
        self,
        script: str | bytes,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ProgramResult:
        """Runs a script with these arguments, in this process."""
        command = await self.prepare_uv_script(script, env)
        return await self.run([*command, *(args or [])], env or {})

    async def run(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> ProgramResult:
        """Runs a command that `prepare_uv_script` gave. OutOfReach for any other command."""
        if len(argv) < 2 or argv[0] != _INTERPRETER or argv[1] not in self._scripts:
            self.wanted = "run"
            raise OutOfReach("there is no runtime here, so no runtime.run")
        return _ran(self._scripts[argv[1]], argv[2:])

    def _installed(self, names: Sequence[str]) -> dict[str, str]:
        versions: dict[str, str] = {}
        for name in names:
            try:
                versions[name] = _version(name)
            except metadata.PackageNotFoundError as error:
                self.wanted = f"run_uv_script, whose script needs the package {name}"
                raise OutOfReach(f"a script needs the package {name}") from error
        return versions


@functools.cache
def _version(name: str) -> str:
    """The installed version of a package. It is kept, as a sandboxed child reads no file."""
    return metadata.version(name)


def needed_packages(script: bytes) -> list[str]:
    """The names of the packages that a script says it needs, in its own metadata (PEP 723)."""
    block = _METADATA.search(script.decode("utf-8", "replace"))
    if block is None:
        return []
    lines = [line[2:] if line.startswith("# ") else line[1:] for line in block["lines"].split("\n")]
    told = tomllib.loads("\n".join(lines))
    names = [_NAME.match(str(requirement)) for requirement in told.get("dependencies", [])]
    return sorted(name[0] for name in names if name)


def _ran(script: bytes, arguments: Sequence[str]) -> ProgramResult:
    """What a script prints, and how it ends. It is the task set's own code, as its rewards are."""
    out, err = io.StringIO(), io.StringIO()
    kept, exit_code = sys.argv, 0
    sys.argv = ["script.py", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            exec(_compiled(script), {"__name__": "__main__"})  # noqa: S102  its user installed it
    except SystemExit as ended:
        exit_code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception as error:  # noqa: BLE001  whatever a script raises ends it, as a process would
        exit_code = 1
        err.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.argv = kept
    return ProgramResult(exit_code, out.getvalue(), err.getvalue())


@functools.lru_cache(maxsize=16)
def _compiled(script: bytes) -> CodeType:
    return compile(script, "script.py", "exec")
