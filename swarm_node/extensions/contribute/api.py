"""Completions from an OpenAI-compatible server, which may be anybody's: its answers are checked in form, and what it is
asked is bounded by a budget, by a number of tries, and by a circuit that opens where nothing comes of it.
"""

import asyncio
import json
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
from swarm_node.common.redaction import without_secrets
from swarm_node.extensions.contribute.budget import Budget, Circuit
from swarm_node.extensions.contribute.settings import ContributeConfig
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings.secret import Secret, SecretUrl

CHARS_PER_TOKEN = 4  # a guess, for servers that do not say what they used, or say less
ATTEMPTS = 5  # of one request
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds between them
LONGEST_RETRY_AFTER = 3600.0  # seconds: what a server may ask for at most
REFUSED = {401, 403}  # the key
HOPELESS = {400, 402, 404, 405, 422}  # asking again changes nothing
TOO_MANY = 429
FIXED = {"model", "messages", "n", "max_tokens", "stream"}  # fields of a request that are options, or counted on
NO_THINKING = {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False}}
MAX_HEADER_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024


class Unsent(Exception):
    """The server was not reached, so the request cost nothing."""


class Broken(Exception):
    """The answer broke a bound, or off. What the request cost is not known."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    content: bytes
    retry_after: str  # the header, as it came; "" without one


class Server:
    """It is never followed elsewhere. `seconds` is the deadline of a whole request: name, connection, TLS, headers and
    content. httpx alone bounds each read, which a server that drips makes last; an event loop can give up whatever it
    waits for.
    """

    def __init__(self, url: SecretUrl, key: Secret, seconds: float) -> None:
        self._url, self._seconds = url, seconds
        headers = {"Accept-Encoding": "identity"}  # what is packed may unfold to any size
        if key:
            headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        login = None if url.login is None else httpx.BasicAuth(*url.login)
        self._options: dict[str, Any] = {"headers": headers, "auth": login, "verify": httpx.create_ssl_context()}
        self._runner = asyncio.Runner()

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Unsent, Broken."""
        try:
            return self._runner.run(self._post(self._url.at(path), body))
        except TimeoutError as error:
            raise Broken(f"the server's answer takes more than {self._seconds:g} s") from error
        except (httpx.ConnectError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Unsent(f"the server cannot be asked: {type(error).__name__}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Broken(f"the server breaks off: {type(error).__name__}") from error

    def close(self) -> None:
        """Ends what Ctrl-C has left under way."""
        self._runner.close()

    async def _post(self, url: str, body: Mapping[str, Any]) -> Reply:
        client = httpx.AsyncClient(**self._options, timeout=self._seconds, follow_redirects=False)
        async with asyncio.timeout(self._seconds), client, client.stream("POST", url, json=body) as response:
            if sum(len(name) + len(value) for name, value in response.headers.raw) > MAX_HEADER_BYTES:
                raise Broken(f"the server's headers are above {MAX_HEADER_BYTES >> 10} kB")
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise Broken(f"the server's answer is above {MAX_ANSWER_BYTES >> 20} MB")
            return Reply(response.status_code, bytes(content), response.headers.get("Retry-After", ""))


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    total_tokens: Annotated[int, Field(ge=0)] = 0


class _Answer(BaseModel):
    """What is needed of an answer; whatever else stands in it is left aside."""

    choices: Annotated[list[_Choice], Field(min_length=1, max_length=256)]
    usage: _Usage | None = None


class Failed(TemporaryError):
    """One request came to nothing. Another may do better, after `wait` seconds."""

    def __init__(self, what: str, advice: str, wait: float = 0.0) -> None:
        super().__init__(what)
        self.advice, self.wait = advice, wait


class ApiGenerator:
    """Asks the server. `pause`: waits so many seconds, or less where the contributor is told to stop. `clock`: seconds
    since 1970, for a server that names the time at which to come back."""

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
        self._extra = json.loads(config.extra_body or "{}")
        if fixed := sorted(FIXED & self._extra.keys()):
            raise UserError(f"extra_body cannot set {', '.join(fixed)}: the budget counts on the options for it")
        self._config, self._key, self._budget = config, key, budget
        self._pause, self._say, self._random, self._clock = pause, say, random, clock
        self._circuit = Circuit()
        self._server = Server(config.api, key, config.timeout)

    def complete(self, prompt: str) -> tuple[Episode, ...] | Skipped:
        """`samples` completions of a prompt, or as many of them as can be used. Servers that know no `n` are asked
        again for each. UserError where the server will never do."""
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
        """Failed, after as many tries as it deserves."""
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
                self._pause(max(error.wait, jittered(backoff(attempt - 1, FIRST_WAIT, LONGEST_WAIT), self._random)))
                last = error
        raise last

    def _ask(self, prompt: str, samples: int, most: int) -> list[_Choice]:
        """One request. What is not known to have cost less stays counted as `most` tokens."""
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
        advice = f"see that the server runs, and that --timeout ({config.timeout:g} s) is enough for it"
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
            answer = _Answer.model_validate(json.loads(reply.content))
        except (ValueError, RecursionError) as error:
            advice = "give the address of chat/completions without that ending, such as http://127.0.0.1:11434/v1"
            raise Failed("the server's answer is not of the form of chat/completions", advice) from error
        self._budget.settle(_tokens(answer, prompt, most))
        return answer.choices

    def _refused(self, reply: Reply) -> Exception:
        """What to make of a status that is not 200: another try, or the end."""
        api, status = self._config.api, reply.status
        if 300 <= status < 400:
            return UserError(f"{api} sends elsewhere (status {status}): name the address it sends to")
        if status in REFUSED:  # such answers like to repeat part of the key, so their words are not shown
            return UserError(f"{api} refuses the key (status {status}): set SWARM_NODE_API_KEY, or --key-file")
        if status in HOPELESS:
            said = self._clean(printable(reply.content.decode(errors="replace"), 160))
            return UserError(f"{api} refuses (status {status}): {said}")
        advice = "lower --requests-per-minute" if status == TOO_MANY else "look at what the server logs"
        wait = _seconds(reply.retry_after, self._clock())
        asked = f", and asks for {wait:.0f} s of patience" if wait else ""
        return Failed(f"the server answers with status {status}{asked}", advice, wait)

    def _why_unusable(self, choices: Sequence[_Choice]) -> tuple[str, str]:
        """What is wrong with an answer of which nothing can be used, and what to change."""
        config = self._config
        if any(choice.message.content for choice in choices):
            limit = f"longer than {MAX_EPISODE_CHARS} characters, or not of text"
            return f"{config.model} gives completions that no message can hold ({limit})", "lower --max-tokens"
        if any(choice.finish_reason == "length" for choice in choices):
            return (
                f"{config.model} was cut off after {config.max_tokens} tokens before it said anything, as models are "
                "that think first",
                "raise --max-tokens, or switch its thinking off with --no-thinking",
            )
        return f"{config.model} says nothing", "name another --model, or look at what the server logs"

    def _nothing(self, skipped: Skipped, what: str, advice: str) -> Skipped:
        """A prompt without a usable completion. Where that happens again and again it pauses, and at last UserError."""
        seconds = self._circuit.failed()
        many, what = f"{self._circuit.fruitless} prompts in a row came to nothing", self._clean(what)
        if self._circuit.gave_up:
            raise UserError(f"given up: {many} ({what}): {advice}")
        if seconds:
            self._say(f"{many} ({what}); the next is asked in {seconds / 60:.0f} min; {advice}")
            self._pause(seconds)
        return skipped

    def _clean(self, text: str) -> str:
        return without_secrets(text, (self._key.get_secret_value(), *(self._config.api.login or ())))


def _completion(choice: _Choice) -> Episode | None:
    text = choice.message.content
    if text is None or len(text) > MAX_EPISODE_CHARS:
        return None
    if text.encode("utf-8", "replace").decode() != text:  # half of a surrogate pair: no message can hold it
        return None
    return Episode.of(text=text, ended=choice.finish_reason == "stop")


def _tokens(answer: _Answer, prompt: str, most: int) -> int:
    """What was used: as the server says, or as it looks, whatever is more. Where it neither says nor shows anything,
    what it may have been."""
    shown = sum(len(choice.message.content or "") for choice in answer.choices)
    said = answer.usage.total_tokens if answer.usage else 0
    return max(said, (len(prompt) + shown) // CHARS_PER_TOKEN) if said or shown else most


def _seconds(text: str, now: float) -> float:
    """What a Retry-After asks for, in seconds or as a date of HTTP; within bounds, and 0 where it is neither."""
    text = text.strip()[:64]
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return min(max(0.0, (at - datetime.fromtimestamp(now, UTC)).total_seconds()), LONGEST_RETRY_AFTER)
