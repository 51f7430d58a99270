"""Invitations: a short text with which another machine joins this node's swarm."""

from swarm_node.commands.command import Entry, Purpose

_AT, _PART = "swarm_node.extensions.invite", Purpose.TAKE_PART
INVITE = Entry(f"{_AT}.invite:INVITE", "[--home FOLDER]", "a code with which others join", _PART)
ADMIT = Entry(f"{_AT}.invite:ADMIT", "[FILE] --key KEY", "a code into a private swarm", _PART)
JOIN = Entry(
    f"{_AT}.join:JOIN", "CODE [--flags]", "run, in the swarm of a code", _PART, lasting=True
)
