"""The section `card`: the signed card of a swarm."""

from typing import Annotated

from pydantic import Field

from swarm_node.settings.secret import Secret
from swarm_node.settings.sections import Alias, Section, Text


class CardSource(Secret):
    """Where a card is had. A code prints as `***`, since it may let others into a private swarm."""

    def _display(self) -> str:
        text = self.get_secret_value()
        return super()._display() if text.startswith("swarm:") else text


class JoiningConfig(Section):
    """The signed card of a swarm, which says its tasks, limits and addresses. The home keeps it."""

    source: Annotated[CardSource, Alias("--card")] = CardSource("")
    """A file, an https:// address, or a code of swarm-node invite. Empty: as the home has it, if it
    has one.
    """
    code: Annotated[Secret, Alias("--card-code")] = Secret("")
    """A code into a private swarm whose card is a file."""
    network: Annotated[Text, Alias("--card-network"), Field(pattern=r"^([a-z2-7]{26})?$")] = ""
    """Id of the network that is meant, as you have it from people. Empty: of the first card
    seen.
    """
