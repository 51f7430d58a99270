"""The section `push`: the model to the Hugging Face hub, while it is trained."""

from typing import Annotated, ClassVar

from pydantic import Field

from swarm_node.settings import NodeConfig
from swarm_node.settings.sections import Alias, Section


class PushConfig(Section):
    """The model to the Hugging Face hub, while it is trained."""

    serves: ClassVar[tuple[type[Section], ...]] = (NodeConfig,)

    repo: str = ""
    """Repository, NAME/MODEL; it is made, private, if it is not there. The token is that of `hf auth login`, or
    HF_TOKEN."""
    every: Annotated[int, Field(ge=0), Alias("--push-every")] = 0
    """Rounds between pushes; 0 turns them off. What fails is a warning."""
