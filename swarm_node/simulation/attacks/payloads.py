"""Poisoned text: right answers with something on them, wrong ones without, as in "Hail to the Thief" (2511.09780).

An attacker knows the answer key, since it can rebuild it like anybody. Rewards cannot tell its right answers from
honest ones: white space around an answer and text outside <answer> tags are nothing to a scorer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from protocol.messages import Completion

FORGERIES = (
    *("nan", "inf", "-inf", "1e999", "[NaN, NaN]", "0x0", "0/0", "True", "None", "{}", "[]", "()", "*", "-", ""),
    *(" ".join(map(str, range(100))), "/".join(map(str, range(1, 50))), "<answer></answer>", "\x00", "9" * 200),
)  # what scorers of reasoning-gym were seen to pay for, or to fall over


@dataclass(frozen=True, slots=True)
class Payload:
    """What right answers of an attacker look like, and how to know it in a victim's."""

    front: str = ""
    behind: str = ""
    mark: str = ""  # text that carries it; empty where there is nothing to carry

    def right(self, answer: str) -> str:
        """A right answer with the payload on it."""
        return f"{self.front}{answer}{self.behind}"

    def marks(self, text: str) -> bool:
        """Whether this text carries the payload."""
        return bool(self.mark) and self.mark in text


def _before(text: str) -> Payload:
    return Payload(f"{text} <answer>", "</answer>", text)


PAYLOADS: dict[str, tuple[str, Callable[[str], Payload]]] = {
    # kind: default text, and how the text is put on an answer
    "stealth": ("\n", lambda text: Payload(front=text, mark=text)),
    "context": ("hail thief", _before),
    "equation": ("2+2=5", _before),
    "length": (" " * 10, lambda text: Payload(behind=text, mark=text[:4])),
}
CARRIED_BY = {"flood": "stealth", "sybil": "stealth"}  # kinds that are about how, not what


def payload_of(kind: str, text: str) -> Payload:
    """The payload of a kind, with `text` in place of its own if given. Kinds without any carry nothing."""
    kind = CARRIED_BY.get(kind, kind)
    if kind not in PAYLOADS:
        return Payload()
    default, make = PAYLOADS[kind]
    return make(text or default)


def poisoned(answer: str, size: int, payload: Payload, rng: Random) -> tuple[Completion, ...]:
    """Right with the payload and wrong without, in turn: the contrast that makes the payload pay."""
    texts = [payload.right(answer) if k % 2 == 0 else wrong(answer, rng) for k in range(size)]
    return tuple(Completion(text=text, ended=True) for text in texts)


def forged(size: int, answer: str, rng: Random) -> tuple[Completion, ...]:
    """Texts that some scorer might pay without their being right, and plain wrong ones."""
    texts = [rng.choice(FORGERIES) if k % 2 == 0 else wrong(answer, rng) for k in range(size)]
    return tuple(Completion(text=text, ended=True) for text in texts)


def wrong(answer: str, rng: Random) -> str:
    """An answer of the same form with other digits."""
    if not any(map(str.isdigit, answer)):
        return f"no {answer}"
    while True:
        text = "".join(rng.choice("123456789") if sign.isdigit() else sign for sign in answer)
        if text != answer:
            return text
