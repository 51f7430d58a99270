"""The command `completion`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

COMPLETION = Entry(
    "swarm_node.extensions.completion.command:COMPLETION",
    "bash|zsh|fish",
    "a script that completes commands and options",
    Purpose.TRY,
)
