"""What a contributor may still use of a server: requests and tokens, in a minute, in a day and in all. The counts of
the day and of all outlive a restart.
"""

import json
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ValidationError

from swarm_node.common.errors import UserError
from swarm_node.common.files import write_json
from swarm_node.settings import ContributeConfig
from swarm_node.settings.secret import Secret
from swarm_node.settings.sections import Count

DAY, MINUTE = 86400.0, 60.0


class _Used(BaseModel):
    """budget.json. A file of version 0.1.0 has no totals."""

    day: int = 0  # since 1970
    tokens: Count = 0  # of this day
    total_requests: Count = 0
    total_tokens: Count = 0


class Budget:
    """Counts what was used, against the limits of `config`. `clock`: seconds since 1970, since days are those of the
    calendar (UTC).

    A request counts with the most tokens that it may take, on disk, before it is made; afterwards with what it took. So
    neither a crash nor a request that never ends is forgotten.
    """

    def __init__(self, config: ContributeConfig, file: Path, clock: Callable[[], float]) -> None:
        self._limits, self._file, self._clock = config, file, clock
        self._minute: deque[tuple[float, int]] = deque()  # when, and tokens
        self._used = self._load()

    @property
    def used_today(self) -> int:
        """Tokens."""
        return self._today().tokens

    @property
    def used(self) -> tuple[int, int]:
        """Requests and tokens in all."""
        return self._used.total_requests, self._used.total_tokens

    def wait(self, tokens: int) -> float:
        """Seconds until a request of at most so many tokens may be made; 0 where it may be made now. UserError where
        the budget in all has no room for it."""
        self._check_total(tokens)
        limits, now, used = self._limits, self._clock(), self.used_today
        if limits.tokens_per_day and used and used + tokens > limits.tokens_per_day:
            return (self._used.day + 1) * DAY - now
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
        used = self._today()
        used.tokens = max(0, used.tokens + tokens)  # midnight may lie between a request and its end
        used.total_requests += requests
        used.total_tokens += tokens
        try:
            write_json(self._file, used.model_dump())
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

    def _today(self) -> _Used:
        today = int(self._clock() // DAY)
        if today != self._used.day:
            self._used.day, self._used.tokens = today, 0
        return self._used

    def _load(self) -> _Used:
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
            return _Used.model_validate({"total_tokens": known["tokens"], **known})
        except FileNotFoundError:
            return _Used()
        except (OSError, ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
            raise UserError(
                f"{self._file} is damaged, and what was used is not known: remove it to count anew"
            ) from error


def take_key(file: Path | None, name: str = "SWARM_NODE_API_KEY") -> Secret:
    """The key of a server, out of the environment for good: no process started later inherits it. OSError."""
    key = os.environ.pop(name, "")
    return Secret(file.expanduser().read_text(encoding="utf-8").strip().partition("\n")[0] if file else key.strip())
