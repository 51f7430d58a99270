"""The commands `model export` and `model push`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

EXPORT = Entry("swarm_node.extensions.hub.export:EXPORT", "DIR [--flags]", "a trained model as a folder", Purpose.TRY)
PUSH = Entry(
    "swarm_node.extensions.hub.push:PUSH",
    "NAME/MODEL [--flags]",
    "a trained model to the Hugging Face hub",
    Purpose.TRY,
)
