"""A node in a browser: a process of its own that reads what the node writes and asks it how it
is.
"""

from swarm_node.commands.command import Entry, Purpose

PAGE = Entry(
    "swarm_node.extensions.page.start:COMMAND",
    "[HOME] [--flags]",
    "a node in a browser",
    Purpose.LOOK,
)
