"""The command `task solve`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

SOLVE = Entry(
    "swarm_node.extensions.temporal_clue.command:SOLVE",
    "SIZE",
    "a Temporal Clue puzzle, solved",
    Purpose.TRY,
)
