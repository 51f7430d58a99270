"""The counter of rounds of a node without a model: a script or a contributor."""

from pathlib import Path

from protocol.messages import Round
from swarm_node.common.files import write_json
from swarm_node.common.parsing import read_json

MOST_BYTES = 1000  # of the file


class RoundCounter:
    """Counts rounds, and never goes back, even after a restart: the number of a round decides its
    questions.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self.next = max(0, int(read_json(file, MOST_BYTES)["next"]))
        except (OSError, ValueError, KeyError, TypeError):
            self.next = 0

    def begin(self) -> Round:
        """A round that was never begun before."""
        now = Round(self.next)
        self.next += 1
        write_json(self._file, {"next": self.next})
        return now
