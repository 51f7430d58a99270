"""Ends the questions to a server that gives nothing for them. Without a clock: it says how long to wait."""

from swarm_node.common.backoff import backoff

IN_A_ROW = 3  # prompts without a usable completion after which the circuit opens
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0  # seconds it stays open: doubled each time
MOST_OPENINGS = 8  # in a row: 1, 2, 4, 8, 16, 32, 60 and 60 minutes


class Circuit:
    """A circuit breaker. Closed, prompts are asked. Open, nothing is asked for a while; then one prompt is asked as a
    trial, which closes it or opens it for longer. Any usable completion closes it."""

    def __init__(self) -> None:
        self.fruitless = 0  # prompts in a row
        self._openings = 0  # in a row

    @property
    def on_trial(self) -> bool:
        """Whether the next prompt decides if it opens again."""
        return self._openings > 0

    @property
    def gave_up(self) -> bool:
        """Whether the last trial was the last."""
        return self._openings > MOST_OPENINGS

    def worked(self) -> None:
        """A prompt had a usable completion."""
        self.fruitless = self._openings = 0

    def failed(self) -> float:
        """A prompt had none. Seconds for which it is open now; 0 where it is not."""
        self.fruitless += 1
        if not self.on_trial and self.fruitless < IN_A_ROW:
            return 0.0
        self._openings += 1
        return backoff(self._openings - 1, FIRST_PAUSE, LONGEST_PAUSE)
