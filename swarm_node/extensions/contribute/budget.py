"""What a contributor may still use of a server: requests and tokens, in a minute and in all, where the counts of all
outlive a restart; and nothing for a while where the server gives nothing for them.
"""

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from swarm_node.common.backoff import backoff
from swarm_node.common.errors import UserError
from swarm_node.common.files import write_json
from swarm_node.extensions.contribute.settings import ContributeConfig
from swarm_node.settings.sections import Count

MINUTE = 60.0
IN_A_ROW = 3  # prompts without a usable completion after which the circuit opens
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0  # seconds it stays open: doubled each time
MOST_OPENINGS = 8  # in a row: 1, 2, 4, 8, 16, 32, 60 and 60 minutes


class _Used(BaseModel):
    """budget.json."""

    total_requests: Count
    total_tokens: Count


class Budget:
    """Counts what was used, against the limits of `config`. `clock`: seconds since 1970.

    A request counts with the most tokens that it may take, on disk, before it is made; afterwards with what it took. So
    neither a crash nor a request that never ends is forgotten.
    """

    def __init__(self, config: ContributeConfig, file: Path, clock: Callable[[], float]) -> None:
        self._limits, self._file, self._clock = config, file, clock
        self._minute: deque[tuple[float, int]] = deque()  # when, and tokens
        self._used = self._load()

    @property
    def used(self) -> tuple[int, int]:
        """Requests and tokens in all."""
        return self._used.total_requests, self._used.total_tokens

    def wait(self, tokens: int) -> float:
        """Seconds until a request of at most so many tokens may be made; 0 where it may be made now. UserError where
        the budget in all has no room for it."""
        self._check_total(tokens)
        limits, now = self._limits, self._clock()
        self._forget(now)
        within = sum(spent for _, spent in self._minute)
        full = len(self._minute) >= limits.requests_per_minute
        dear = bool(limits.tokens_per_minute and within and within + tokens > limits.tokens_per_minute)
        return max(0.0, self._minute[0][0] + MINUTE - now) if full or dear else 0.0

    def reserve(self, tokens: int) -> None:
        """A request is made now, which may take so many tokens. UserError where that cannot be written down."""
        self._minute.append((self._clock(), tokens))
        self._add(1, tokens)

    def settle(self, tokens: int) -> None:
        """The last request took so many tokens, in place of what was reserved for it."""
        when, reserved = self._minute.pop()
        self._minute.append((when, tokens))
        self._add(0, tokens - reserved)

    def _add(self, requests: int, tokens: int) -> None:
        self._used.total_requests += requests
        self._used.total_tokens += tokens
        try:
            write_json(self._file, self._used.model_dump())
        except OSError as error:
            reason = f"{self._file} cannot be written ({error.strerror})"
            raise UserError(f"{reason}: make room, the budget is kept there") from error

    def _check_total(self, tokens: int) -> None:
        requests, used = self.used
        limits = self._limits
        if limits.total_requests and requests >= limits.total_requests:
            raise UserError(f"the budget of {limits.total_requests} requests in all is used: raise --total-requests")
        if limits.total_tokens and used + tokens > limits.total_tokens:
            raise UserError(
                f"the budget of {limits.total_tokens} tokens in all has no room for another request (used: {used}, the "
                f"next may take {tokens}): raise --total-tokens"
            )

    def _forget(self, now: float) -> None:
        """Requests of more than a minute ago, and of a time that has not come: the clock was put back."""
        while self._minute and not now - MINUTE < self._minute[0][0] <= now:
            self._minute.popleft()

    def _load(self) -> _Used:
        try:
            return _Used.model_validate(json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return _Used(total_requests=0, total_tokens=0)
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(
                f"{self._file} is damaged, and what was used is not known: remove it to count anew"
            ) from error


class Circuit:
    """A circuit breaker. Closed, prompts are asked. Open, nothing is asked for a while; then one prompt is asked as a
    trial, which closes it or opens it for longer. Any usable completion closes it. It has no clock."""

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
