"""Sees what the interpreter does while hostile input is read. Part of `lab.fuzzing.folders`."""

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.fuzzing.stranger import MARK


@dataclass
class Watch:
    """What the interpreter did while a case was read."""

    place: Path  # where payloads write
    on: bool = False
    ran: list[str] = field(default_factory=list)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The hook for sys.addaudithook, which stays for good. It raises `Ran`, so no process with
        a payload starts.
        """
        if not self.on or event not in AUDITED:
            return
        self.on = False
        try:
            if event in ALWAYS or MARK in AUDITED[event](arguments):
                self.ran.append(f"{event}: {str(arguments)[:300]}")
                raise Ran(event)
        finally:
            self.on = True

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Watches a reader. Its exceptions are dropped, since other fuzzers count them."""
        self.on = True
        try:
            with (
                redirect_stdout(io.StringIO()),
                redirect_stderr(io.StringIO()),
                suppress(Exception, SystemExit),
            ):
                yield
        finally:
            self.on = False
        for left in self.place.glob(f"{MARK}-*"):
            self.ran.append(f"wrote {left.name}")
            left.unlink()


class Ran(BaseException):
    """Something ran. No `except Exception` of the tested code catches it; it is counted in any
    case.
    """


def _file(arguments: tuple[Any, ...]) -> str:
    if not isinstance(arguments[0], str | bytes | os.PathLike):
        return ""
    path = os.path.normpath(os.fsdecode(arguments[0]))
    # A checkpoint's file in there may have any plain name
    if "/restored/" in path:
        return ""
    # A link is opened by mistake where the file that it names lies outside
    refused = isinstance(arguments[-1], int) and arguments[-1] & os.O_NOFOLLOW
    return path if refused else f"{path} {os.path.realpath(path)}"


def _compiled(arguments: tuple[Any, ...]) -> str:
    # Jinja makes Python of a chat template: its text is a constant there, and its sandbox decides
    return "" if arguments[1] in TEMPLATES else repr(arguments)


def _executed(arguments: tuple[Any, ...]) -> str:
    code = arguments[0]
    if code.co_filename in TEMPLATES:
        return ""
    return f"{code.co_filename} {code.co_consts} {code.co_names}"


TEMPLATES = ("<template>", "<unknown>")
PROCESSES = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "pty.spawn",
)
CODE = ("import", "compile", "ctypes.dlopen", "pickle.find_class", "marshal.loads")
OUTSIDE = ("socket.connect", "socket.getaddrinfo", "webbrowser.open")
AUDITED: Mapping[str, Callable[[tuple[Any, ...]], str]] = {
    **dict.fromkeys((*PROCESSES, *CODE, *OUTSIDE), repr),
    "compile": _compiled,
    **dict.fromkeys(("open", "os.mkdir", "os.rename", "os.symlink"), _file),
    "exec": _executed,
}
# No reader of a folder does any of these
ALWAYS = {"os.fork", "pickle.find_class", "os.system", "webbrowser.open"}
