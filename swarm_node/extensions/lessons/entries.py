"""The command `ask`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

ASK = Entry(
    "swarm_node.extensions.lessons.ask:ASK",
    "[TEXT] [--flags]",
    "what the model says, before and now",
    Purpose.TRY,
    lasting=True,
)
