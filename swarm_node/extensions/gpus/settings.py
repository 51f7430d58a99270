"""The section `gpus`: a node of several processes, each on a GPU."""

from typing import ClassVar

from swarm_node.settings import NodeConfig
from swarm_node.settings.sections import Section


class GpusConfig(Section):
    """A node of several processes that torchrun started, each on a GPU."""

    serves: ClassVar[tuple[type[Section], ...]] = (NodeConfig,)

    shard_optimizer: bool = False
    """Each rank keeps AdamW's state of its share of the weights, and not of all. Updates and checkpoints are the same;
    a step takes one more exchange of the weights."""
