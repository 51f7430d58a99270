"""The command `page`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

PAGE = Entry("swarm_node.extensions.page.start:COMMAND", "[HOME] [--flags]", "a node in a browser", Purpose.LOOK)
