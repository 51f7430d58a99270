"""Questions from a file of the user's: what is read, how it becomes questions, and who scores
them.
"""

from swarm_node.commands.command import Entry, Purpose

_TRIED = "how a file of questions is read and scored"
DATASET = Entry(
    "swarm_node.extensions.dataset.command:DATASET", "FILE [--flags]", _TRIED, Purpose.TRY
)
