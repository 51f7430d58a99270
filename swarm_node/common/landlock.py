"""Landlock: a process takes the file system away from itself, but for the paths it names (Linux 5.13, landlock(7)).

Called through libc's `syscall`, since no library has the calls. A restriction binds the calling thread and all that it
starts from then on, for good; so a process restricts itself before it has a second thread.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 7, 1 << 8, 1 << 9
REFER, TRUNCATE = 1 << 13, 1 << 14  # from versions 2 and 3 on

READ = READ_FILE | READ_DIR
RUN = READ_FILE | EXECUTE
OWN = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | REFER | TRUNCATE  # a folder
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE  # what a rule for anything but a folder may grant

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_GET_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
SIGNALS_SINCE = 6  # the version (Linux 6.12) that keeps signals and abstract sockets within the restricted processes


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    found: int = _libc().syscall(_CREATE_RULESET, None, 0, _GET_VERSION)
    return max(0, found)


def ruleset(allowed: Mapping[Path, int], tcp: bool) -> int:
    """A descriptor of rules that refuse every right this kernel knows, but for those of `allowed`, each for a path and
    all below it; paths that do not exist are left out. `tcp`: whether ports may be listened on and connected to.
    -1 where there is no Landlock. Raises OSError."""
    known = version()
    if known < 1:
        return -1
    files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(known, 16)) - 1
    network = 0b11 if known >= 4 and not tcp else 0
    scoped = 0b11 if known >= SIGNALS_SINCE else 0  # abstract Unix sockets, signals
    attributes = struct.pack("QQQ", files, network, scoped)[: 8 if known < 4 else 16 if known < SIGNALS_SINCE else 24]
    rules = _checked(_libc().syscall(_CREATE_RULESET, attributes, len(attributes), 0), "landlock_create_ruleset")
    for path, rights in allowed.items():
        with suppress(FileNotFoundError, NotADirectoryError):
            _allow(rules, path, rights & files)
    return rules


def restrict(rules: int) -> None:
    """Bind this thread to `rules`, a descriptor of `ruleset`. Needs `no_new_privileges` before. Raises OSError."""
    _checked(_libc().syscall(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")


def no_new_privileges() -> None:
    """No set-uid program helps this process any more. Linux only. Raises OSError."""
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def _allow(rules: int, path: Path, rights: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not path.is_dir():
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, opened)  # struct landlock_path_beneath_attr is packed
        _checked(_libc().syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), f"landlock_add_rule {path}")
    finally:
        os.close(opened)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result
