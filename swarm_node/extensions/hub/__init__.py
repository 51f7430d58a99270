"""Takes a trained model out of the home: `swarm-node model export` and `model push`."""

from swarm_node.commands.command import Entry, Purpose

EXPORT = Entry(
    "swarm_node.extensions.hub.export:EXPORT",
    "DIR [--flags]",
    "a trained model as a folder",
    Purpose.TRY,
)
_TO_HUB = "a trained model to the Hugging Face hub"
PUSH = Entry("swarm_node.extensions.hub.push:PUSH", "NAME/MODEL [--flags]", _TO_HUB, Purpose.TRY)
