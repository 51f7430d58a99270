"""Completions from an OpenAI-compatible server, which may be anybody's: its answers are bounded in bytes and seconds,
checked in form, and never followed elsewhere.
"""

import json
from collections.abc import Callable
from random import Random
from time import monotonic
from typing import Annotated, Any

import httpx
from pydantic import BaseModel, Field, ValidationError

from protocol.limits import MAX_COMPLETION_CHARS
from protocol.messages import Completion
from swarm_node.commands.contribute.budget import Budget
from swarm_node.common.backoff import backoff, jittered
from swarm_node.common.errors import UserError
from swarm_node.common.printable import printable
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings.contribute import ContributeConfig

CHARS_PER_TOKEN = 4  # a guess, for servers that do not say what they used, or say less
MAX_ANSWER_BYTES = 4 * 1024 * 1024
ATTEMPTS = 5  # of one request
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds between them
HOPELESS = {400, 401, 403, 404, 405, 422}  # asking again changes nothing


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


class Failed(Exception):
    """One request came to nothing. Another may do better."""


class ApiGenerator:
    """Asks the server. `pause`: waits so many seconds, or less where the contributor is told to stop."""

    def __init__(
        self,
        config: ContributeConfig,
        key: str,
        budget: Budget,
        pause: Callable[[float], None],
        say: Callable[[str], None],
        random: Random,
    ) -> None:
        if not config.api.startswith(("http://", "https://")) or not config.model:
            raise UserError("contribute needs a server and a model: --api http://127.0.0.1:11434/v1 --model NAME")
        self._config, self._key, self._budget = config, key, budget
        self._pause, self._say, self._random = pause, say, random
        self._url = config.api.rstrip("/") + "/chat/completions"
        headers = {"Accept-Encoding": "identity"}  # what is packed may unfold to any size
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(headers=headers, timeout=config.timeout, follow_redirects=False)

    def complete(self, prompt: str) -> tuple[Completion, ...] | Skipped:
        """`samples` completions of a prompt. Servers that know no `n` are asked again for each. UserError where the
        server will never do."""
        found: list[Completion] = []
        while len(found) < self._config.samples:
            answer = self._patiently(prompt, self._config.samples - len(found))
            if answer is None:
                return Skipped("api failed")
            found += [each for choice in answer.choices if (each := _completion(choice)) is not None]
            if not any(choice.message.content for choice in answer.choices):
                return Skipped("api said nothing")
        return tuple(found[: self._config.samples])

    def close(self) -> None:
        """Ends its connections."""
        self._client.close()

    def _patiently(self, prompt: str, samples: int) -> _Answer | None:
        for attempt in range(ATTEMPTS):
            while (seconds := self._budget.wait()) > 0:
                if seconds > 120.0:
                    self._say(f"the budget of today is used; going on in {seconds / 3600:.1f} hours")
                self._pause(seconds)
            try:
                return self._ask(prompt, samples)
            except Failed as error:
                wait = jittered(backoff(attempt, FIRST_WAIT, LONGEST_WAIT), self._random)
                self._say(f"{self._clean(str(error))}; attempt {attempt + 1} of {ATTEMPTS}")
                self._pause(wait)
        return None

    def _ask(self, prompt: str, samples: int) -> _Answer:
        config = self._config
        body = {
            "model": config.model,
            "messages": [{"role": "user", "content": prompt}],
            "n": samples,
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
            "stream": False,
        }
        self._budget.request()
        status, content = self._exchange(body)
        if 300 <= status < 400:
            raise UserError(f"{self._config.api} sends elsewhere (status {status}): name the address it sends to")
        if status in HOPELESS:
            said = printable(self._clean(content.decode(errors="replace")), 160)
            raise UserError(f"{self._config.api} refuses (status {status}): {said}")
        if status != 200:
            raise Failed(f"the server answers with status {status}")
        try:
            answer = _Answer.model_validate(json.loads(content))
        except (ValueError, RecursionError, ValidationError) as error:
            raise Failed("the server's answer is not of the form of chat/completions") from error
        self._budget.spend(_tokens(answer, prompt))
        return answer

    def _exchange(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and content, within bounds: a server that sends for ever is hung up on."""
        until = monotonic() + self._config.timeout
        content = b""
        try:
            with self._client.stream("POST", self._url, json=body) as response:
                for chunk in response.iter_raw():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise Failed(f"the server's answer is above {MAX_ANSWER_BYTES >> 20} MB")
                    if monotonic() > until:
                        raise Failed(f"the server's answer takes more than {self._config.timeout:.0f} s")
                return response.status_code, content
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Failed(f"the server cannot be asked: {type(error).__name__}") from error

    def _clean(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _completion(choice: _Choice) -> Completion | None:
    text = choice.message.content
    if text is None or len(text) > MAX_COMPLETION_CHARS:
        return None
    if text.encode("utf-8", "replace").decode() != text:  # half of a surrogate pair: no message can hold it
        return None
    return Completion(text=text, ended=choice.finish_reason == "stop")


def _tokens(answer: _Answer, prompt: str) -> int:
    """What was used: as the server says, or as it looks, whatever is more."""
    chars = len(prompt) + sum(len(choice.message.content or "") for choice in answer.choices)
    return max(answer.usage.total_tokens if answer.usage else 0, chars // CHARS_PER_TOKEN)
