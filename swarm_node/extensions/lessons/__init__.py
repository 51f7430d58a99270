"""Tells what a node has learned, when it stops and by `swarm-node ask`, and what to try where it
learns nothing.
"""

from swarm_node.commands.command import Entry, Purpose

_SAYS = "what the model says, before and now"
ASK = Entry(
    "swarm_node.extensions.lessons.ask:ASK", "[TEXT] [--flags]", _SAYS, Purpose.TRY, lasting=True
)
