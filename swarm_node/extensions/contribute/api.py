"""Completions from an OpenAI-compatible server. It may be anybody's server, so the form of its
answers is checked. Requests are bounded by a budget, by a number of tries, and by a circuit breaker
that opens while the server gives nothing usable.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Annotated, Any

import httpx
from pydantic import BaseModel, Field

from protocol.limits import MAX_EPISODE_CHARS
from protocol.messages import Episode
from swarm_node.common.backoff import backoff, jittered
from swarm_node.common.errors import TemporaryError, UserError, printable
from swarm_node.common.parsing import parse_json
from swarm_node.common.redaction import without_secrets
from swarm_node.extensions.contribute.budget import Budget, Circuit
from swarm_node.extensions.contribute.settings import ContributeConfig
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings.secret import Secret, SecretUrl

CHARS_PER_TOKEN = 4  # a guess, for servers that report no usage, or too little
ATTEMPTS = 5  # of one request
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds between attempts
LONGEST_RETRY_AFTER = 3600.0  # seconds: the longest wait that a server may ask for
REFUSED = {401, 403}  # statuses: the server refuses the key
HOPELESS = {400, 402, 404, 405, 422}  # statuses: asking again changes nothing
TOO_MANY = 429
# Fields that options set, and that the budget counts on
FIXED = {"model", "messages", "n", "max_tokens", "stream"}
NO_THINKING = {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False}}
MAX_HEADER_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024


class Unsent(Exception):
    """The server was not reached, so the request cost nothing."""


class Broken(Exception):
    """The answer exceeded a bound, or the connection broke off. What the request cost is not
    known.
    """


@dataclass(frozen=True, slots=True)
class Reply:
    """The server's answer to one request."""

    status: int
    content: bytes
    retry_after: str  # the header as received; "" without one


class Server:
    """The server, whose redirects are never followed. `seconds` is the deadline of a whole request:
    name, connection, TLS, headers and content. httpx alone bounds each read, so a server that drips
    bytes could hold a request for ever; an event loop can cancel any wait.
    """

    def __init__(self, url: SecretUrl, key: Secret, seconds: float) -> None:
        self._url, self._seconds = url, seconds
        headers = {"Accept-Encoding": "identity"}  # a compressed answer may grow to any size
        if key:
            headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        login = None if url.login is None else httpx.BasicAuth(*url.login)
        self._options: dict[str, Any] = {
            "headers": headers,
            "auth": login,
            "verify": httpx.create_ssl_context(),
        }
        self._runner = asyncio.Runner()

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The server's answer. Raises Unsent or Broken."""
        try:
            return self._runner.run(self._post(self._url.at(path), body))
        except TimeoutError as error:
            raise Broken(f"the server's answer takes more than {self._seconds:g} s") from error
        except (httpx.ConnectError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Unsent(f"the server cannot be asked: {type(error).__name__}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Broken(f"the server breaks off: {type(error).__name__}") from error

    def close(self) -> None:
        """Cancels a request that Ctrl-C has interrupted."""
        self._runner.close()

    async def _post(self, url: str, body: Mapping[str, Any]) -> Reply:
        client = httpx.AsyncClient(**self._options, timeout=self._seconds, follow_redirects=False)
        async with (
            asyncio.timeout(self._seconds),
            client,
            client.stream("POST", url, json=body) as response,
        ):
            if (
                sum(len(name) + len(value) for name, value in response.headers.raw)
                > MAX_HEADER_BYTES
            ):
                raise Broken(f"the server's headers are above {MAX_HEADER_BYTES >> 10} kB")
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise Broken(f"the server's answer is above {MAX_ANSWER_BYTES >> 20} MB")
            return Reply(
                response.status_code, bytes(content), response.headers.get("Retry-After", "")
            )


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    total_tokens: Annotated[int, Field(ge=0)] = 0


class _Answer(BaseModel):
    """The parts of an answer that are needed; all others are ignored."""

    choices: Annotated[list[_Choice], Field(min_length=1, max_length=256)]
    usage: _Usage | None = None


class Failed(TemporaryError):
    """One request failed. Another may succeed after `wait` seconds."""

    def __init__(self, what: str, advice: str, wait: float = 0.0) -> None:
        super().__init__(what)
        self.advice, self.wait = advice, wait


class ApiGenerator:
    """Asks the server for completions. `pause`: waits so many seconds, unless the contributor is
    stopped first. `clock`: seconds since 1970, for a server that names the time at which to come
    back.
    """

    def __init__(
        self,
        config: ContributeConfig,
        key: Secret,
        budget: Budget,
        pause: Callable[[float], None],
        say: Callable[[str], None],
        random: Random,
        clock: Callable[[], float],
    ) -> None:
        self._extra = parse_json(config.extra_body or "{}")
        if fixed := sorted(FIXED & self._extra.keys()):
            raise UserError(
                f"extra_body cannot set {', '.join(fixed)}: set it by --model, --samples and "
                "--max-tokens, as the budget counts on these"
            )
        self._config, self._key, self._budget = config, key, budget
        self._pause, self._say, self._random, self._clock = pause, say, random, clock
        self._circuit = Circuit()
        self._server = Server(config.api, key, config.timeout)

    def complete(self, prompt: str) -> tuple[Episode, ...] | Skipped:
        """Up to `samples` completions of a prompt; Skipped where there are none. A server that
        ignores `n` is asked again for the rest. UserError where it refuses for good, the circuit
        gives up, or the budget is used up.
        """
        found: list[Episode] = []
        asked = 0
        while asked < self._config.samples:
            try:
                choices = self._patiently(prompt, self._config.samples - asked)
            except Failed as error:
                return self._nothing(Skipped("api failed"), str(error), error.advice)
            asked += len(choices)
            usable = [each for choice in choices if (each := _completion(choice)) is not None]
            found += usable
            if not any(each.text for each in usable):  # asking again would cost as much
                what, advice = self._why_unusable(choices)
                self._say(f"{what}; {advice}")
                if not any(each.text for each in found):
                    return self._nothing(Skipped("api said nothing"), what, advice)
                break
        self._circuit.worked()
        return tuple(found[: self._config.samples])

    def close(self) -> None:
        self._server.close()

    def _patiently(self, prompt: str, samples: int) -> list[_Choice]:
        """The choices of one answer, after at most ATTEMPTS tries, or one if the circuit is on
        trial. Raises Failed.
        """
        attempts = 1 if self._circuit.on_trial else ATTEMPTS
        asked = len(self._config.environment.system) + len(prompt)
        most = asked // CHARS_PER_TOKEN + samples * self._config.max_tokens
        for attempt in range(1, attempts + 1):
            while (seconds := self._budget.wait(most)) > 0:
                self._pause(seconds)
            try:
                return self._ask(prompt, samples, most)
            except Failed as error:
                self._say(f"{self._clean(str(error))}; attempt {attempt} of {attempts}")
                self._pause(
                    max(
                        error.wait,
                        jittered(backoff(attempt - 1, FIRST_WAIT, LONGEST_WAIT), self._random),
                    )
                )
                last = error
        raise last

    def _ask(self, prompt: str, samples: int, most: int) -> list[_Choice]:
        """Makes one request. It stays counted as `most` tokens unless it is known to have cost
        less.
        """
        config, system = self._config, self._config.environment.system
        turns = [{"role": "system", "content": system}] if system else []
        body = {
            "model": config.model,
            "messages": [*turns, {"role": "user", "content": prompt}],
            "n": samples,
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
            "stream": False,
            "stop": list(config.stop) or None,
            **({} if config.thinking else NO_THINKING),
            **self._extra,
        }
        body = {name: value for name, value in body.items() if value is not None}
        advice = (
            f"see that the server runs, and that --timeout ({config.timeout:g} s) is enough for it"
        )
        self._budget.reserve(most)
        try:
            reply = self._server.post("/chat/completions", body)
        except Unsent as error:
            self._budget.settle(0)
            raise Failed(str(error), advice) from error
        except Broken as error:
            raise Failed(str(error), advice) from error
        if reply.status != 200:
            self._budget.settle(0)
            raise self._refused(reply)
        try:
            answer = _Answer.model_validate(parse_json(reply.content))
        except ValueError as error:
            advice = (
                "give the address of chat/completions without that ending, such as "
                "http://127.0.0.1:11434/v1"
            )
            raise Failed(
                "the server's answer is not of the form of chat/completions", advice
            ) from error
        self._budget.settle(_tokens(answer, prompt, most))
        return answer.choices

    def _refused(self, reply: Reply) -> Exception:
        """The error for a status that is not 200: Failed where another try may help, else
        UserError.
        """
        api, status = self._config.api, reply.status
        if 300 <= status < 400:
            return UserError(
                f"{api} sends elsewhere (status {status}): give --api the address that it sends "
                "to, as the key is not sent on"
            )
        # Such answers often repeat part of the key, so their text is not shown
        if status in REFUSED:
            return UserError(
                f"{api} refuses the key (status {status}): set SWARM_NODE_API_KEY, or --key-file, "
                "to the one that your provider made"
            )
        if status in HOPELESS:
            said = printable(reply.content.decode(errors="replace"), 160, self._secrets())
            return UserError(f"{api} refuses (status {status}): {said}")
        advice = (
            "lower --requests-per-minute" if status == TOO_MANY else "look at what the server logs"
        )
        wait = _seconds(reply.retry_after, self._clock())
        asked = f", and asks for {wait:.0f} s of patience" if wait else ""
        return Failed(f"the server answers with status {status}{asked}", advice, wait)

    def _why_unusable(self, choices: Sequence[_Choice]) -> tuple[str, str]:
        """What is wrong with an answer of which nothing can be used, and what to change."""
        config = self._config
        if any(choice.message.content for choice in choices):
            limit = f"longer than {MAX_EPISODE_CHARS} characters, or not of text"
            return (
                f"{config.model} gives completions that no message can hold ({limit})",
                "lower --max-tokens",
            )
        if any(choice.finish_reason == "length" for choice in choices):
            return (
                f"{config.model} was cut off after {config.max_tokens} tokens before it said "
                "anything, as models are "
                "that think first",
                "raise --max-tokens, or switch its thinking off with --no-thinking",
            )
        return (
            f"{config.model} says nothing",
            "name another --model, or look at what the server logs",
        )

    def _nothing(self, skipped: Skipped, what: str, advice: str) -> Skipped:
        """Counts a prompt without a usable completion. Pauses while the circuit is open; UserError
        if it has given up.
        """
        seconds = self._circuit.failed()
        many, what = (
            f"{self._circuit.fruitless} prompts in a row came to nothing",
            self._clean(what),
        )
        if self._circuit.gave_up:
            raise UserError(f"given up: {many} ({what}): {advice}")
        if seconds:
            self._say(f"{many} ({what}); the next is asked in {seconds / 60:.0f} min; {advice}")
            self._pause(seconds)
        return skipped

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        return (self._key.get_secret_value(), *(self._config.api.login or ()))


def _completion(choice: _Choice) -> Episode | None:
    text = choice.message.content
    if text is None or len(text) > MAX_EPISODE_CHARS:
        return None
    # Half of a surrogate pair: no message can hold it
    if text.encode("utf-8", "replace").decode() != text:
        return None
    return Episode.of(text=text, ended=choice.finish_reason == "stop")


def _tokens(answer: _Answer, prompt: str, most: int) -> int:
    """Tokens used: what the server reports or what the texts suggest, whichever is more; `most`
    where the server reports nothing and the texts are empty.
    """
    shown = sum(len(choice.message.content or "") for choice in answer.choices)
    said = answer.usage.total_tokens if answer.usage else 0
    return max(said, (len(prompt) + shown) // CHARS_PER_TOKEN) if said or shown else most


def _seconds(text: str, now: float) -> float:
    """The seconds that a Retry-After asks for, as a number or an HTTP date, within bounds; 0 where
    it is neither.
    """
    text = text.strip()[:64]
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return min(
        max(0.0, (at - datetime.fromtimestamp(now, UTC)).total_seconds()), LONGEST_RETRY_AFTER
    )
