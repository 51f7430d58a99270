"""The section `manifest`. Code calls a manifest by its name on the wire, a card."""

from typing import Annotated, ClassVar

from pydantic import Field

from swarm_node.settings.secret import Secret
from swarm_node.settings.sections import Alias, Earlier, Section, Text


class ManifestSource(Secret):
    """Where the manifest comes from. A code prints as `***`, since it may let others into a private
    swarm.
    """

    def _display(self) -> str:
        text = self.get_secret_value()
        return super()._display() if text.startswith("swarm:") else text


class JoiningConfig(Section):
    """The signed manifest of a swarm: its tasks, limits and addresses. The home folder keeps it."""

    earlier: ClassVar[tuple[str, ...]] = ("card",)
    source: Annotated[ManifestSource, Alias("--manifest"), Earlier("--card", "--card.source")] = (
        ManifestSource("")
    )
    """Where the manifest comes from: a file, an https:// address, or a code that swarm-node invite
    printed. Empty: the manifest that the home folder keeps, if there is one.
    """
    code: Annotated[Secret, Alias("--manifest-code"), Earlier("--card-code", "--card.code")] = (
        Secret("")
    )
    """A code that lets this node into a private swarm whose manifest is a file."""
    network: Annotated[
        Text,
        Alias("--manifest-network"),
        Earlier("--card-network", "--card.network"),
        Field(pattern=r"^([a-z2-7]{26})?$"),
    ] = ""
    """Id of the network that you mean, as you got it from people you trust. Empty: the network
    of the first manifest that this node sees.
    """
