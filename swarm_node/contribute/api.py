"""Completions from an OpenAI-compatible server. It may be anybody's server, so what it answers is
checked (answer.py). What it wants otherwise than others is learnt from its refusals (dialect.py).
Requests are bounded by a budget, by a number of tries, and by a circuit breaker that opens while
the server gives nothing usable.

A failure has one of three ends. It may pass: then the request is made again. It is this prompt's
alone: then the prompt is skipped. Or nothing but the contributor can cure it: then the run ends
with one line, which has the server's own words and the cure.
"""

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any

import httpx

from protocol.limits import MAX_EPISODE_CHARS
from protocol.messages import Episode
from swarm_node.common.backoff import backoff, jittered
from swarm_node.common.errors import TemporaryError, UserError, printable
from swarm_node.common.http import async_client, cause_of, server_words
from swarm_node.common.parsing import parse_json
from swarm_node.common.proxies import proxy_for, through
from swarm_node.common.redaction import without_secrets
from swarm_node.contribute.answer import (
    Answer,
    Choice,
    Complained,
    Complaint,
    EndedEarly,
    NotOfForm,
    complaint_of,
    read_answer,
)
from swarm_node.contribute.budget import Budget, Circuit
from swarm_node.contribute.dialect import (
    ABOUT_FORM,
    NEW_LENGTH,
    Dialect,
    cure,
    out_of_credit,
)
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings.contribute import ContributeConfig
from swarm_node.settings.secret import Secret, SecretUrl

CHARS_PER_TOKEN = 4  # a guess, for servers that report no usage, or too little
ATTEMPTS = 5  # of one request
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds between attempts
LONGEST_RETRY_AFTER = 3600.0  # seconds: the longest wait that a server may ask for
UNAUTHORISED, FORBIDDEN, PROXY_REFUSES, TOO_MANY = 401, 403, 407, 429  # statuses
# Asking again changes nothing
REFUSED = {400, 401, 402, 403, 404, 405, 406, 407, 410, 413, 415, 422, 501}
OF_THE_PROMPT = {400, 413, 422}  # of these, what another prompt may not have
# Fields that options set, and that the budget counts on
FIXED = {"model", "messages", "n", "max_tokens", NEW_LENGTH, "stream", "stream_options"}
PATH = "/chat/completions"
SAID = 160  # characters shown of what a server says
MAX_HEADER_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_STREAM_BYTES = 32 * 1024 * 1024  # each token comes in an event of some 300 bytes
PACKED = {"gzip": 31, "x-gzip": 31, "deflate": 47}  # encoding -> how zlib names it


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
    # Headers as received, the second in small letters; "" without one
    retry_after: str
    kind: str
    location: str


class ModelServer:
    """The server, whose redirects are never followed. `seconds` is the deadline of a whole request:
    name, connection, TLS, headers and content. httpx alone bounds each read, so a server that drips
    bytes could hold a request for ever; an event loop can cancel any wait. UserError where a
    variable names a proxy that cannot be used.
    """

    def __init__(self, url: SecretUrl, key: Secret, seconds: float) -> None:
        self._url, self._seconds = url.at(PATH), seconds
        self.proxy = proxy_for(self._url)
        self.through = through(self._url)  # for a message
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

    def post(self, body: Mapping[str, Any]) -> Reply:
        """The server's answer. Raises Unsent or Broken."""
        by = self.through
        try:
            return self._runner.run(self._post(body))
        except TimeoutError as error:
            raise Broken(f"the server's answer{by} takes more than {self._seconds:g} s") from error
        except (httpx.ConnectError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Unsent(f"the server cannot be asked{by}: {cause_of(error)}") from error
        except httpx.ProxyError as error:
            raise Unsent(f"the server cannot be asked{by}, which answers: {error}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Broken(f"the server breaks off{by}: {cause_of(error)}") from error

    def close(self) -> None:
        """Cancels a request that Ctrl-C has interrupted."""
        self._runner.close()

    async def _post(self, body: Mapping[str, Any]) -> Reply:
        client = async_client(**self._options, timeout=self._seconds, follow_redirects=False)
        async with (
            asyncio.timeout(self._seconds),
            client,
            client.stream("POST", self._url, json=body) as response,
        ):
            headers = response.headers
            if sum(len(name) + len(value) for name, value in headers.raw) > MAX_HEADER_BYTES:
                raise Broken(f"the server's headers are above {MAX_HEADER_BYTES >> 10} kB")
            kind = headers.get("Content-Type", "").lower()
            most = MAX_STREAM_BYTES if "event-stream" in kind else MAX_ANSWER_BYTES
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > most:
                    raise _above(most)
            unpacked = _unpacked(bytes(content), headers.get("Content-Encoding", ""), most)
            wait = headers.get("Retry-After", "")
            return Reply(response.status_code, unpacked, wait, kind, headers.get("Location", ""))


def _above(most: int) -> Broken:
    return Broken(f"the server's answer is above {most >> 20} MB")


def _unpacked(content: bytes, encoding: str, most: int) -> bytes:
    """The content, which some servers pack though nobody has asked for it. Broken."""
    encoding = encoding.strip().lower()
    if not content or encoding in ("", "identity"):
        return content
    if encoding not in PACKED:
        raise Broken(f"the server's answer is packed as {printable(encoding, 20)}, unasked")
    try:
        unpacked = zlib.decompressobj(PACKED[encoding]).decompress(content, most + 1)
    except zlib.error as error:
        raise Broken(f"the server's answer is not packed as {encoding}, as it says") from error
    if len(unpacked) > most:
        raise _above(most)
    return unpacked


class RequestFailed(TemporaryError):
    """One request failed. Another may succeed after `wait` seconds, but with this prompt only if
    `again`.
    """

    def __init__(self, what: str, advice: str, wait: float = 0.0, again: bool = True) -> None:
        super().__init__(what)
        self.advice, self.wait, self.again = advice, wait, again


class Learnt(Exception):
    """The server refused the form of a request, which has another form from now on. Its text says
    so.
    """


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
                f"extra_body cannot set {', '.join(fixed)}: set it with --model, --samples and "
                "--max-tokens, as the budget counts on these"
            )
        self._config, self._key, self._budget = config, key, budget
        self._pause, self._say, self._random, self._clock = pause, say, random, clock
        self._circuit = Circuit()
        self._server = ModelServer(config.api, key, config.timeout)
        self._dialect = Dialect(config, self._extra)
        self._answered = False  # whether the server has ever given an answer

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
            except RequestFailed as error:
                return self._nothing(Skipped("api failed"), str(error), error.advice)
            asked += len(choices)
            cuts = self._dialect.cuts
            usable = [each for choice in choices if (each := _completion(choice, cuts)) is not None]
            found += usable
            if not any(each.text for each in usable):  # asking again would cost as much
                what, advice = self._why_unusable(choices)
                self._say(f"{self._clean(what)}; {advice}")
                if not any(each.text for each in found):
                    return self._nothing(Skipped("api said nothing"), what, advice)
                break
        self._circuit.worked()
        return tuple(found[: self._config.samples])

    def close(self) -> None:
        self._server.close()

    def _patiently(self, prompt: str, samples: int) -> Sequence[Choice]:
        """The choices of one answer, after at most ATTEMPTS tries, or one if the circuit is on
        trial; a request from which something was learnt is not a try. Raises Failed.
        """
        attempts = 1 if self._circuit.on_trial else ATTEMPTS
        attempt = 1
        while True:
            wanted = min(samples, self._dialect.most_samples)
            most = self._prompt_tokens(prompt) + wanted * self._config.max_tokens
            while (seconds := self._budget.wait(most)) > 0:
                self._pause(seconds)
            try:
                return self._ask(prompt, wanted, most)
            except Learnt as lesson:
                self._say(str(lesson))
            except RequestFailed as error:
                if not error.again:
                    self._say(f"{self._clean(str(error))}; this prompt is skipped")
                    raise
                told = f"{self._clean(str(error))}; attempt {attempt} of {attempts}"
                self._say(f"{told}; {error.advice}" if attempt == 1 else told)
                usual = backoff(attempt - 1, FIRST_WAIT, LONGEST_WAIT)
                self._pause(max(error.wait, jittered(usual, self._random)))
                if attempt == attempts:
                    raise
                attempt += 1

    def _prompt_tokens(self, prompt: str) -> int:
        return (len(self._config.environment.system) + len(prompt)) // CHARS_PER_TOKEN

    def _ask(self, prompt: str, samples: int, most: int) -> Sequence[Choice]:
        """Makes one request. It stays counted as `most` tokens unless it is known to have cost
        less. Raises Learnt or Failed; UserError where only the contributor can change something.
        """
        body = self._dialect.body(prompt, samples)
        self._budget.reserve(most)
        try:
            reply = self._server.post(body)
        except Unsent as error:
            self._budget.settle(0)
            raise RequestFailed(str(error), self._cure_of_connection(str(error))) from error
        except Broken as error:
            raise RequestFailed(str(error), self._cure_of_broken(str(error))) from error
        if not 200 <= reply.status < 300:
            self._budget.settle(0)
            raise self._error_of(_complaint(reply), reply, body)
        try:
            answer = read_answer(reply.content, reply.kind)
        except Complained as error:
            self._budget.settle(0)
            raise self._error_of(error.complaint, reply, body) from error
        except EndedEarly as error:
            what = "the server's stream ends before it is done"
            raise RequestFailed(what, "look at what the server logs") from error
        except NotOfForm as error:
            raise self._not_of_form(reply, str(error)) from error
        self._budget.settle(self._tokens(answer, prompt, most))
        self._answered = True
        return answer.choices

    def _tokens(self, answer: Answer, prompt: str, most: int) -> int:
        """Tokens used: what the server reports or what the texts suggest, whichever is more; `most`
        where the server reports nothing and the texts are empty.
        """
        if not answer.used and not answer.shown:
            return most
        shown = self._prompt_tokens(prompt) + answer.shown // CHARS_PER_TOKEN
        return max(answer.used, shown)

    def _error_of(self, complaint: Complaint, reply: Reply, body: Mapping[str, Any]) -> Exception:
        """What comes of a refusal: Learnt, Failed where another try or another prompt may help,
        else UserError.
        """
        status = complaint.status if reply.status == 200 and complaint.status else reply.status
        if 300 <= status < 400:
            return self._sent_elsewhere(reply)
        lesson = self._dialect.learn(complaint, body) if status in ABOUT_FORM else ""
        if lesson:
            return Learnt(lesson)
        words = self._shown(complaint.words)
        said = f"status {status}: {words}" if words else f"status {status}"
        if status in REFUSED or (status == TOO_MANY and out_of_credit(complaint)):
            return self._hopeless(complaint, status, words)
        return self._busy(complaint, status, said, reply)

    def _hopeless(self, complaint: Complaint, status: int, words: str) -> Exception:
        """Returns the error for a request that would be refused again, however often it is made."""
        api, proxy = self._config.api, self._server.proxy
        if status == PROXY_REFUSES and proxy is not None:
            return UserError(
                f"{proxy} refuses (status {status}): write user and password into the variable, "
                "or name the server's host in NO_PROXY"
            )
        if status == UNAUTHORISED:
            what = f"{api} {'refuses the' if self._key else 'needs a'} key (status {status})"
            said = f"; it says: {words}" if words else ""
            return UserError(f"{what}: set SWARM_NODE_API_KEY, or --key-file{said}")
        advice = cure(complaint, status, self._config, self._extra)
        if status == FORBIDDEN and not advice:
            advice = "see what the key may do, and where the provider serves"
        filtered = "content_filter" in complaint.searched
        if status in OF_THE_PROMPT and (self._answered or filtered):
            what = f"the server refuses (status {status}): {words}"
            return RequestFailed(what, advice or _LOGS, again=False)
        usual = "" if words else _LOGS
        said = "; ".join(filter(None, (words, advice or usual)))
        return UserError(f"{api} refuses (status {status}): {said}")

    def _busy(self, complaint: Complaint, status: int, said: str, reply: Reply) -> RequestFailed:
        """Returns the failure of a request that the server may answer later."""
        advice = _LOGS
        if status == TOO_MANY:
            tokens = "token" in complaint.searched
            advice = "lower --tokens-per-minute" if tokens else "lower --requests-per-minute"
        wait = _seconds(reply.retry_after, self._clock())
        asked = f", and asks this node to wait {wait:.0f} s" if wait else ""
        what = f"the server answers with {said}{self._server.through}{asked}"
        return RequestFailed(what, advice, wait)

    def _sent_elsewhere(self, reply: Reply) -> UserError:
        """The redirect is not followed, as the key would be sent there."""
        where = self._shown(reply.location.removesuffix(PATH))
        to = f" to {where}" if where else ""
        return UserError(
            f"{self._config.api} redirects requests{to} (status {reply.status}): give the address "
            "that it redirects to as --api, if you trust it with the key"
        )

    def _not_of_form(self, reply: Reply, why: str) -> RequestFailed:
        words = self._shown(server_words(reply.content))
        shown = f": {words}" if words else ""
        if "html" in reply.kind or reply.content.lstrip()[:1] == b"<":
            return RequestFailed(
                f"the server answers with a web page{self._server.through}{shown}",
                "give as --api the address before /chat/completions, such as "
                "http://127.0.0.1:11434/v1",
            )
        return RequestFailed(
            f"the server's answer is not of the form of chat/completions, as {why}{shown}",
            "see that --api is the address before /chat/completions, and what the server logs",
        )

    def _cure_of_connection(self, what: str) -> str:
        if self._server.proxy is not None:
            return f"see that {self._server.proxy} runs, or name the server's host in NO_PROXY"
        lower = what.lower()
        if "wrong version number" in lower or "record layer" in lower:
            return "write http:// in --api, as the server does not speak https"
        if "certificate" in lower or "self-signed" in lower:
            return "name the file of its authority's certificate in SSL_CERT_FILE"
        if "name or service" in lower or "name resolution" in lower or "no address" in lower:
            return "see that the name in --api is right, and that this machine is online"
        return "see that the server runs, and listens at the address in --api"

    def _cure_of_broken(self, what: str) -> str:
        if "takes more than" in what:
            return f"raise --timeout ({self._config.timeout:g} s), or lower --samples"
        if "is above" in what:
            return "lower --max-tokens or --samples"
        return "look at what the server logs, and whether --api has http or https as it should"

    def _why_unusable(self, choices: Sequence[Choice]) -> tuple[str, str]:
        """What is wrong with an answer of which nothing can be used, and what to change."""
        config = self._config
        if any(choice.text for choice in choices):
            limit = f"longer than {MAX_EPISODE_CHARS} characters, or not of text"
            return (
                f"{config.model} gives completions that no message can hold ({limit})",
                "lower --max-tokens",
            )
        if refusals := [choice.refusal for choice in choices if choice.refusal]:
            return (
                f"{config.model} refuses to answer: {self._shown(refusals[0])}",
                "name other tasks, or another --model",
            )
        if any(choice.calls for choice in choices):
            return (
                f"{config.model} calls a tool and answers nothing",
                "take tools out of --extra-body and of the server, or name another --model",
            )
        if any(choice.finish in FILTERED for choice in choices):
            return (
                "the server's filter of contents withheld the answer",
                "name other tasks, or another --model",
            )
        # Reasoning that did not end is what the second finds
        if any(choice.finish == "length" or choice.beside for choice in choices):
            return (
                f"{config.model} was cut off after {config.max_tokens} tokens before it said "
                "anything, as models are that think first",
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
            f"{self._circuit.fruitless} prompts in a row brought no completion",
            self._clean(what),
        )
        if self._circuit.gave_up:
            raise UserError(f"the contributor stops, since {many} ({what}): {advice}")
        if seconds:
            self._say(f"{many} ({what}); the next is asked in {seconds / 60:.0f} min; {advice}")
            self._pause(seconds)
        return skipped

    def _shown(self, words: str) -> str:
        """Words of the server, safe to show."""
        return printable(words, SAID, self._secrets())

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        return (self._key.get_secret_value(), *(self._config.api.login or ()))


_LOGS = "look at what the server logs"
FILTERED = {"content_filter", "safety", "recitation"}


def _complaint(reply: Reply) -> Complaint:
    try:
        return complaint_of(parse_json(reply.content))
    except (ValueError, RecursionError):
        return Complaint(server_words(reply.content))


def _completion(choice: Choice, cuts: Sequence[str]) -> Episode | None:
    """The completion of this choice, cut at the first of these stop strings; None where no message
    can hold it.
    """
    text, ended = choice.text, choice.ended
    if text is None:
        return None
    ends = [place for stop in cuts if (place := text.find(stop)) >= 0]
    if ends:
        text, ended = text[: min(ends)], True
    if len(text) > MAX_EPISODE_CHARS:
        return None
    # Half of a surrogate pair: no message can hold it
    if text.encode("utf-8", "replace").decode() != text:
        return None
    return Episode.of(text=text, ended=ended)


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
    seconds = (at - datetime.fromtimestamp(now, UTC)).total_seconds()
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER)
