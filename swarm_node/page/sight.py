"""The one place that decides what a viewer may see. Whoever shows the token sees everything; all
others see what is nobody's secret: figures, and names that everybody knows.

Not for everybody are names of nodes, names of tasks but those that come with this program or that
the user made public, and what a model, an environment or a scorer called its mistakes. In a private
swarm, whose card has members, its name and all task names that the user did not make public are
hidden as well: what its members do is their business.
"""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from protocol.card import Refusal
from swarm_node.network.process.keeper import cards_file, load_cards

OTHERS = "other tasks"  # stands for all tasks whose names are not shown
PRIVATE = "a private swarm"  # stands for its name
RAISED = " raised "  # what stands behind it names code of the user


class Sight:
    """What one kind of viewer may see."""

    everything = False

    def __init__(
        self,
        shipped: Collection[str] = (),
        chosen: Collection[str] = (),
        is_private: Callable[[], bool] = lambda: False,
    ) -> None:
        """`shipped`: tasks that come with this program; `chosen`: tasks that the user made public.
        `is_private`: whether the node's swarm is private now.
        """
        self._shipped, self._chosen, self._is_private = shipped, chosen, is_private

    def task(self, name: str) -> str:
        """The name of a task if everybody may see it, else the words that stand for all others."""
        is_known = name in self._chosen or (name in self._shipped and not self._is_private())
        return name if is_known else OTHERS

    def swarm(self, name: str) -> str:
        """The name of the swarm, or the word that stands for a private one."""
        return PRIVATE if self._is_private() else name

    def peer(self, peer: str, number: int) -> str:
        """The name of a node, or its number in a list."""
        return str(number)

    def reason(self, text: str) -> str:
        """Why something was left out, without the name of code of the user."""
        return text.partition(RAISED)[0] + RAISED.rstrip() if RAISED in text else text

    def about(self, facts: Mapping[str, str]) -> dict[str, str]:
        """Facts of a node by their names, without its own name."""
        shown = {name: value for name, value in facts.items() if name != "peer_id"}
        return shown | ({"swarm": self.swarm(facts["swarm"])} if "swarm" in facts else {})


class Everything(Sight):
    """What the node's user sees, and whoever has the token."""

    everything = True

    def task(self, name: str) -> str:
        """The name itself."""
        return name

    def swarm(self, name: str) -> str:
        """The name itself."""
        return name

    def peer(self, peer: str, number: int) -> str:
        """The name itself."""
        return peer

    def reason(self, text: str) -> str:
        """The text itself."""
        return text

    def about(self, facts: Mapping[str, str]) -> dict[str, str]:
        """All of them."""
        return dict(facts)


EVERYTHING = Everything()


class PrivateSwarm:
    """Whether the card in a home makes its swarm a private one. A card that cannot be read counts
    as one that does. Read again only when the file has changed, as its signatures take time.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen: tuple[int, int] | None = None
        self._found = False

    def __call__(self) -> bool:
        state: tuple[int, int] | None = None
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat(cards_file(self._home))
            state = status.st_mtime_ns, status.st_size
        if state != self._seen:
            self._seen, (_, card) = state, load_cards(cards_file(self._home))
            # Where the file holds no whole chain, the swarm may be a private one
            self._found = isinstance(card, Refusal) or (
                card is not None and card.members is not None
            )
        return self._found
