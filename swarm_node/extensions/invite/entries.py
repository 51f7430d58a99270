"""The commands `invite` and `join`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

INVITE = Entry(
    "swarm_node.extensions.invite.invite:INVITE", "[--home FOLDER]", "a code with which others join", Purpose.TAKE_PART
)
JOIN = Entry(
    "swarm_node.extensions.invite.join:JOIN",
    "CODE [--flags]",
    "run, in the swarm of a code",
    Purpose.TAKE_PART,
    lasting=True,
)
