"""The command `dataset`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

DATASET = Entry(
    "swarm_node.extensions.dataset.command:DATASET",
    "FILE [--flags]",
    "what a file of questions comes to",
    Purpose.TRY,
)
