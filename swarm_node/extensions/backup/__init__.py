"""Backs up a home into one file, and restores a home from it."""

from swarm_node.commands.command import Entry, Purpose

_AT, _HOME, _PART = "swarm_node.extensions.backup.backup", "[--home FOLDER]", Purpose.TAKE_PART
ID = Entry(f"{_AT}:ID", _HOME, "show this node's identity, made if need be", _PART)
BACKUP = Entry(
    f"{_AT}:BACKUP", f"FILE {_HOME}", "identity and newest checkpoint, in one file", _PART
)
RESTORE = Entry(f"{_AT}:RESTORE", f"FILE {_HOME}", "a home from it", _PART)
