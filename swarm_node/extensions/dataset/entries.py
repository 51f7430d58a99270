"""The command `task try`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

DATASET = Entry(
    "swarm_node.extensions.dataset.command:DATASET",
    "FILE [--flags]",
    "how a file of questions is read and scored",
    Purpose.TRY,
)
