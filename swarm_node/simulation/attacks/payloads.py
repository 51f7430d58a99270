"""Poisoned completions: right ones with a payload, wrong ones without, as in "Hail to the Thief"
(2511.09780).

An attacker knows the reference answer, since anybody can rebuild it. Rewards cannot distinguish its
right completions from honest ones: a scorer ignores a little white space around an answer, and
where environment.answer is `tags`, all text outside of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from protocol.messages import Episode

FORGERIES = (
    *(
        "nan",
        "inf",
        "-inf",
        "1e999",
        "[NaN, NaN]",
        "0x0",
        "0/0",
        "True",
        "None",
        "{}",
        "[]",
        "()",
        "*",
        "-",
        "",
    ),
    *(
        " ".join(map(str, range(100))),
        "/".join(map(str, range(1, 50))),
        "<answer></answer>",
        "\x00",
        "9" * 200,
    ),
)  # what scorers of reasoning-gym rewarded, or raised on


@dataclass(frozen=True, slots=True)
class Payload:
    """The form of an attacker's right completions, and how to recognise it in those of a victim."""

    front: str = ""
    behind: str = ""
    mark: str = ""  # text that shows it; empty if there is no payload

    def right(self, answer: str) -> str:
        """A right completion with the payload."""
        return f"{self.front}{answer}{self.behind}"

    def marks(self, text: str) -> bool:
        """Whether this completion has the payload."""
        return bool(self.mark) and self.mark in text


def _before(text: str) -> Payload:
    return Payload(f"{text} <answer>", "</answer>", text)


def _in_front(text: str) -> Payload:
    return Payload(front=text, mark=text)


def _behind(text: str) -> Payload:
    return Payload(behind=text, mark=text[:4])


PAYLOADS: dict[str, tuple[str, Callable[[str], Payload]]] = {
    # kind: default text, and how the text is put around an answer
    "stealth": ("\n", _in_front),
    "context": ("hail thief", _before),
    "equation": ("2+2=5", _before),
    "length": (" " * 10, _behind),
}
# Kinds that differ in how they send, not what
CARRIED_BY = {"flood": "stealth", "sybil": "stealth"}


def payload_of(kind: str, text: str) -> Payload:
    """The payload of a kind, with `text` instead of its default if given. Some kinds have no
    payload.
    """
    kind = CARRIED_BY.get(kind, kind)
    if kind not in PAYLOADS:
        return Payload()
    default, make = PAYLOADS[kind]
    return make(text or default)


def poisoned(answer: str, size: int, payload: Payload, rng: Random) -> tuple[Episode, ...]:
    """Right completions with the payload and wrong ones without, in turn. This contrast gives the
    payload its advantage.
    """
    episodes: list[Episode] = []
    for k in range(size):
        text = payload.right(answer) if k % 2 == 0 else wrong(answer, rng)
        episodes.append(Episode.of(text=text, ended=True))
    return tuple(episodes)


def forged(size: int, answer: str, rng: Random) -> tuple[Episode, ...]:
    """Completions that some scorer might reward although they are wrong, and plainly wrong ones."""
    episodes: list[Episode] = []
    for k in range(size):
        text = rng.choice(FORGERIES) if k % 2 == 0 else wrong(answer, rng)
        episodes.append(Episode.of(text=text, ended=True))
    return tuple(episodes)


def wrong(answer: str, rng: Random) -> str:
    """A wrong answer of the same form, with other digits."""
    if not any(map(str.isdigit, answer)):
        return f"no {answer}"

    def other_digit(sign: str) -> str:
        return rng.choice("123456789") if sign.isdigit() else sign

    while True:
        text = "".join(map(other_digit, answer))
        if text != answer:
            return text
