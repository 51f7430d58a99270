"""The command `task solve`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

SOLVE = Entry(
    "swarm_node.extensions.temporal_clue.command:SOLVE",
    "SIZE|FILE.json",
    "the solution of a Temporal Clue puzzle",
    Purpose.TRY,
)
