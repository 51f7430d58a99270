"""The command `contribute`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

CONTRIBUTE = Entry(
    "swarm_node.extensions.contribute.start:CONTRIBUTE",
    "--api URL --model NAME",
    "give completions of an API, train nothing",
    Purpose.TAKE_PART,
    lasting=True,
)
