"""The command `page`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

PAGE = Entry(
    "swarm_node.extensions.page.start:COMMAND",
    "[HOME|REPORT] [--flags]",
    "a node or a simulation in a browser",
    Purpose.LOOK,
)
