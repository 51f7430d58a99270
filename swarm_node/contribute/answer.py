"""Reads what a server answers. Servers that call themselves OpenAI-compatible differ: content is a
text or a list of parts, an answer comes whole or as a stream of events, reasoning stands in a field
of its own or in the text, an error comes with status 200.

What the contributor needs is a text; all else may be missing or broken. `usage` is bookkeeping: a
number that cannot be one counts as not reported, and then the texts tell what was used.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from swarm_node.common.http import words_of
from swarm_node.environments.scored import without_thinking

MAX_CHOICES = 256
# As servers say that the model ended by itself, in small letters
ENDED = {"stop", "eos", "eos_token", "end_turn", "stop_sequence"}
TEXT_PARTS = {None, "text", "output_text"}  # types of parts that are the answer itself
REASONING = ("reasoning_content", "reasoning", "thinking")  # fields beside the content
_STREAMS = (b"data:", b"event:", b": ", b":\n")  # how a stream of events begins
_BLOCK = re.compile(
    r"\s*(?:<(thinking|thought|reasoning)>.*?(?:</\1>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z))", re.DOTALL
)
_CODES = range(400, 600)


class NotOfForm(ValueError):
    """The answer is none of chat/completions."""


class EndedEarly(Exception):
    """A stream of events ended before the server said that it was done."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion."""

    text: str | None  # without reasoning
    finish: str = ""  # why it ended, in small letters
    beside: int = 0  # characters of reasoning and of other text that is not an answer
    refusal: str = ""  # the model's own words, where it refused
    calls: bool = False  # whether it calls a tool

    @property
    def ended(self) -> bool:
        """Whether the model ended it by itself."""
        return self.finish in ENDED


@dataclass(frozen=True, slots=True)
class Answer:
    """The parts of an answer that are needed."""

    choices: tuple[Choice, ...]
    used: int  # tokens, as the server counts them; 0 where it does not say

    @property
    def shown(self) -> int:
        """Characters that the model wrote, as far as they are known."""
        return sum(len(choice.text or "") + choice.beside for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a server says went wrong."""

    words: str
    status: int = 0  # as the text has it: some servers send it with status 200
    code: str = ""
    param: str = ""  # the field of the request that it is about

    @property
    def searched(self) -> str:
        """All of it in small letters, to look for a cause in."""
        return " ".join((self.words, self.code, self.param and f"'{self.param}'")).lower()


class Complained(Exception):
    """The server sent an error with a status that means success."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.words)
        self.complaint = complaint


def complaint_of(value: Any) -> Complaint:
    """What this JSON says went wrong; without words where it says nothing."""
    inner = value.get("error") if isinstance(value, dict) else None
    error = inner if isinstance(inner, dict) else value if isinstance(value, dict) else {}
    code, param = error.get("code"), error.get("param")
    kinds = [str(part) for part in (code, error.get("type")) if isinstance(part, str | int)]
    status = _number(code)
    return Complaint(
        words_of(value),
        status if status in _CODES else 0,
        " ".join(kinds),
        param if isinstance(param, str) else "",
    )


def read_answer(content: bytes, kind: str) -> Answer:
    """The answer, which came with this Content-Type. Raises NotOfForm, EndedEarly or Complained."""
    if "event-stream" in kind or content.lstrip().startswith(_STREAMS):
        return _streamed(content)
    value = _parsed(content)
    if not isinstance(value, dict):
        raise NotOfForm("it is not an object")
    choices = value.get("choices")
    if not choices and (value.get("error") or value.get("object") == "error"):
        raise Complained(complaint_of(value))
    if not isinstance(choices, list) or not 0 < len(choices) <= MAX_CHOICES:
        raise NotOfForm("it has no choices" if not choices else "its choices are not a list")
    return Answer(tuple(map(_choice, choices)), tokens_of(value.get("usage")))


def tokens_of(usage: Any) -> int:
    """The tokens that a server says were used; 0 where it does not say, or says nonsense."""
    if not isinstance(usage, dict):
        return 0
    parts = (_number(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return _number(usage.get("total_tokens")) or sum(parts)


def _number(value: Any) -> int:
    """The number that this is, also as a text; 0 where it is none, or negative."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(0, int(value)) if math.isfinite(value) else 0


def _parsed(content: bytes | str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NotOfForm("it is not JSON") from error


@dataclass(slots=True)
class _Pieces:
    """What has come of a choice."""

    text: str | None = None
    finish: str = ""
    beside: int = 0
    refusal: str = ""
    calls: bool = False

    def add(self, choice: Any) -> None:
        """Adds a choice, or a piece of one. NotOfForm, Complained."""
        if not isinstance(choice, dict):
            raise NotOfForm("a choice is not an object")
        if choice.get("error"):
            raise Complained(complaint_of(choice))
        message = choice.get("message") or choice.get("delta")
        if message is None and isinstance(choice.get("text"), str):
            message = {"content": choice["text"]}
        if message is None and "message" not in choice and "delta" not in choice:
            raise NotOfForm("a choice has no message")
        self._add_message({} if message is None else message)
        finish = choice.get("finish_reason")
        self.finish = finish.lower() if isinstance(finish, str) else self.finish

    def _add_message(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise NotOfForm("a message is not an object")
        text, beside = _content(message.get("content"))
        if text is not None:
            self.text = (self.text or "") + text
        apart = [message.get(name) for name in REASONING]
        longest = max((len(one) for one in apart if isinstance(one, str)), default=0)
        self.beside += beside + longest
        refusal = message.get("refusal")
        self.refusal += refusal if isinstance(refusal, str) else ""
        self.calls |= bool(message.get("tool_calls") or message.get("function_call"))

    def choice(self) -> Choice:
        """The whole choice."""
        answer = self.text if self.text is None else answer_alone(self.text)
        thought = len(self.text or "") - len(answer or "")
        beside = self.beside + thought + len(self.refusal)
        return Choice(answer, self.finish, beside, self.refusal, self.calls)


def _choice(value: Any) -> Choice:
    pieces = _Pieces()
    pieces.add(value)
    return pieces.choice()


def _content(content: Any) -> tuple[str | None, int]:
    """The text of a content, and how many characters of it are no answer."""
    if content is None or isinstance(content, str):
        return content, 0
    if not isinstance(content, list | dict):
        raise NotOfForm("a content is not a text")
    texts, beside = list[str](), 0
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text") if isinstance(part, dict) else part
        if kind in TEXT_PARTS and isinstance(text, str):
            texts.append(text)
        elif isinstance(part, dict):
            beside += len(words_of(list(part.values())))
        else:
            raise NotOfForm("a part of a content is not a text")
    return "".join(texts) if texts else None, beside


def answer_alone(text: str) -> str:
    """The text without the reasoning before it; nothing where the reasoning did not end."""
    answer = without_thinking(text)
    while block := _BLOCK.match(answer):
        answer = answer[block.end() :]
    return text if answer == text else answer.lstrip()


@dataclass(slots=True)
class _Stream:
    """What has come of a stream of events."""

    pieces: dict[int, _Pieces] = field(default_factory=dict)
    used: int = 0

    def add(self, event: Any) -> None:
        """Adds an event. NotOfForm, Complained."""
        if not isinstance(event, dict):
            raise NotOfForm("an event is not an object")
        if event.get("error") and not event.get("choices"):
            raise Complained(complaint_of(event))
        choices = event.get("choices") or []
        if not isinstance(choices, list):
            raise NotOfForm("its choices are not a list")
        for choice in choices:
            index = choice.get("index", 0) if isinstance(choice, dict) else 0
            if not isinstance(index, int) or not 0 <= index < MAX_CHOICES:
                raise NotOfForm("a choice has no number")
            self.pieces.setdefault(index, _Pieces()).add(choice)
        # Some servers count on with each event, others say it in the last one
        self.used = max(self.used, tokens_of(event.get("usage")))


def _streamed(content: bytes) -> Answer:
    stream, done = _Stream(), False
    for data in _events(content.decode(errors="replace")):
        if data.strip() == "[DONE]":
            done = True
            break
        stream.add(_parsed(data))
    if not stream.pieces:
        raise NotOfForm("its stream has no choices")
    if not done and any(not pieces.finish for pieces in stream.pieces.values()):
        raise EndedEarly
    return Answer(
        tuple(stream.pieces[index].choice() for index in sorted(stream.pieces)), stream.used
    )


def _events(text: str) -> Iterator[str]:
    """The data of each event. Other fields and comments are skipped."""
    lines = list[str]()
    # Not splitlines, which splits at characters that JSON may hold as they are
    for line in [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        name, _, value = line.partition(":")
        if name == "data":
            lines.append(value.removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []
