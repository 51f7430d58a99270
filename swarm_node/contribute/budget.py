"""What a contributor may still use of a server: requests and tokens, per minute and in total. The
totals outlive a restart. A circuit breaker stops all requests for a while when the server gives
nothing usable for them.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from swarm_node.common.backoff import backoff
from swarm_node.common.errors import UserError, reason_of
from swarm_node.common.files import write_json
from swarm_node.common.parsing import read_json
from swarm_node.settings.contribute import ContributeConfig
from swarm_node.settings.sections import Count

MINUTE = 60.0
MOST_BYTES = 1000  # of the file
IN_A_ROW = 3  # prompts without a usable completion after which the circuit opens
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0  # seconds that the circuit stays open: doubled each time
MOST_OPENINGS = 8  # in a row: 1, 2, 4, 8, 16, 32, 60 and 60 minutes


class _Used(BaseModel):
    """The content of budget.json."""

    total_requests: Count
    total_tokens: Count


class Budget:
    """Counts what was used, against the limits of `config`. `clock`: seconds since 1970.

    Before a request is made, the most tokens that it may take are written to disk; afterwards, the
    tokens that it took. So neither a crash nor a request that never ends is forgotten.
    """

    def __init__(self, config: ContributeConfig, file: Path, clock: Callable[[], float]) -> None:
        self._limits, self._file, self._clock = config, file, clock
        self._minute: deque[tuple[float, int]] = deque()  # (time, tokens) of each request
        self._used = self._load()

    @property
    def used(self) -> tuple[int, int]:
        """Requests and tokens used in total."""
        return self._used.total_requests, self._used.total_tokens

    def wait(self, tokens: int) -> float:
        """Seconds until a request of at most `tokens` tokens may be made; 0 where it may be made
        now. UserError where the total budget has no room for it.
        """
        self._check_total(tokens)
        limits, now = self._limits, self._clock()
        self._forget(now)
        within = sum(spent for _, spent in self._minute)
        full = len(self._minute) >= limits.requests_per_minute
        dear = bool(
            limits.tokens_per_minute and within and within + tokens > limits.tokens_per_minute
        )
        return max(0.0, self._minute[0][0] + MINUTE - now) if full or dear else 0.0

    def reserve(self, tokens: int) -> None:
        """Counts a request, made now, that may take `tokens` tokens. UserError where the file
        cannot be written.
        """
        self._minute.append((self._clock(), tokens))
        self._add(1, tokens)

    def settle(self, tokens: int) -> None:
        """Counts `tokens` for the last request, in place of what was reserved for it. UserError as
        in `reserve`.
        """
        when, reserved = self._minute.pop()
        self._minute.append((when, tokens))
        self._add(0, tokens - reserved)

    def _add(self, requests: int, tokens: int) -> None:
        self._used.total_requests += requests
        self._used.total_tokens += tokens
        try:
            write_json(self._file, self._used.model_dump())
        except OSError as error:
            reason = f"{self._file} cannot be written ({reason_of(error)})"
            raise UserError(
                f"{reason}: make room there, since this file counts what is left of the budget"
            ) from error

    def _check_total(self, tokens: int) -> None:
        requests, used = self.used
        limits = self._limits
        if limits.total_requests and requests >= limits.total_requests:
            raise UserError(
                f"the budget of {limits.total_requests} requests in all is used: raise "
                "--total-requests, or set it to 0 for no limit"
            )
        if limits.total_tokens and used + tokens > limits.total_tokens:
            raise UserError(
                f"the budget of {limits.total_tokens} tokens in all has no room for another "
                f"request (used: {used}, the next may take {tokens}): raise --total-tokens (0: no "
                "limit), or ask for less with --samples and --max-tokens"
            )

    def _forget(self, now: float) -> None:
        """Drops requests of more than a minute ago, and of a future time: then the clock was put
        back.
        """
        while self._minute and not now - MINUTE < self._minute[0][0] <= now:
            self._minute.popleft()

    def _load(self) -> _Used:
        try:
            return _Used.model_validate(read_json(self._file, MOST_BYTES))
        except FileNotFoundError:
            return _Used(total_requests=0, total_tokens=0)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self._file} is damaged, and what was used is not known: remove it to count "
                "from 0 again, and lower the limits by what your provider has counted already"
            ) from error


class Circuit:
    """A circuit breaker. Closed, prompts are asked. Open, nothing is asked for a while; then one
    prompt is asked as a trial, which closes it or opens it for longer. Any usable completion closes
    it. It has no clock.
    """

    def __init__(self) -> None:
        self.fruitless = 0  # prompts in a row without a usable completion
        self._openings = 0  # in a row

    @property
    def on_trial(self) -> bool:
        """Whether the next prompt decides if it opens again."""
        return self._openings > 0

    @property
    def gave_up(self) -> bool:
        """Whether the trial after the last opening has failed, too."""
        return self._openings > MOST_OPENINGS

    def worked(self) -> None:
        """Notes that a prompt had a usable completion, so that earlier failures no longer count."""
        self.fruitless = self._openings = 0

    def failed(self) -> float:
        """Counts a prompt without a usable completion. Returns the seconds for which the circuit is
        open now, or 0.
        """
        self.fruitless += 1
        if not self.on_trial and self.fruitless < IN_A_ROW:
            return 0.0
        self._openings += 1
        return backoff(self._openings - 1, FIRST_PAUSE, LONGEST_PAUSE)
