"""`swarm-node contribute`: a node that only generates, with a model behind an API. Needs no
torch.
"""

from swarm_node.commands.command import Entry, Purpose

CONTRIBUTE = Entry(
    "swarm_node.extensions.contribute.start:CONTRIBUTE",
    "--api URL --model NAME",
    "give completions of an API, train nothing",
    Purpose.TAKE_PART,
    lasting=True,
)
