"""Commands that we print for a user to copy into a shell."""

import shlex
from pathlib import Path


def typed(*words: object) -> str:
    """The command of these words, as a user types it: a path with spaces stands in quotes."""
    return shlex.join(map(str, words))


def at_home(command: str, home: Path, usual: Path) -> str:
    """The command with this home, which is skipped where it is the usual one."""
    return command if home == usual.expanduser() else f"{command} {typed('--home', home)}"
