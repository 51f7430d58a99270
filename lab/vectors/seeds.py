"""Seeds of questions, which of them are held out for evaluation, digests of environments and traces
of episodes.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator

from lab.vectors.forms import LIMITS, SWARM, VERSION, Group, canonical
from lab.vectors.keys import ANN, BOB

HELD_OUT = "evaluation"
NEAR = LIMITS["MAX_QUESTIONS_PER_ROUND"]


def question_seed(author: str, round: int, swarm: str = SWARM) -> int:
    text = f"swarm-node/{VERSION}/question-seed\0{swarm}\0{author}\0{round}"
    while any(abs(_number(text) - seed) <= NEAR for seed in _HELD_OUT):
        text += "\0"
    return _number(text)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (
        LIMITS["MAX_SEED"] + 1
    )


_HELD_OUT = [_number(f"swarm-node/1/question-seed\0{HELD_OUT}\0{round}") for round in range(64)]


def seeds() -> list[Group]:
    group, held, texts = Group("question-seed"), Group("held-out-seed"), Group("held-out-text")
    for swarm, author in ((SWARM, ANN.peer), (SWARM, BOB.peer), ("other", ANN.peer)):
        for round in (0, 1, 7, 9, 10, 255, 256, 65536, LIMITS["MAX_ROUND"]):
            output = question_seed(author, round, swarm)
            group.valid("a seed", b"", output, swarm=swarm, author=author, round=round)
    for round in _near():
        output = question_seed(ANN.peer, round)
        group.valid(
            "near a held-out one", b"", output, "HeldOut", swarm=SWARM, author=ANN.peer, round=round
        )
    evaluation = Group("fixed-seed", common={"round": 0})
    for round in (0, 1, 63):
        evaluation.valid(
            "of evaluation", b"", _HELD_OUT[round], "HeldOut", author=HELD_OUT, round=round
        )
    fixed = _number("swarm-node/1/question-seed\0fingerprint\0" + "0")
    evaluation.valid("of the questions of a digest", b"", fixed, author="fingerprint")
    for seed in (*_HELD_OUT[:3], _HELD_OUT[63], min(_HELD_OUT), max(_HELD_OUT)):
        for distance in (-NEAR - 1, -NEAR, 0, NEAR, NEAR + 1):
            right = abs(distance) <= NEAR
            held.valid(
                f"{distance} from a held-out seed", b"", right, "HeldOut", seed=seed + distance
            )
    for text in ("", "What is 3 + 4?", "caf\u00e9", "\U0001f41d", *map(str, range(9))):
        texts.valid("a question", text.encode(), hashlib.sha256(text.encode()).digest()[0] < 64)
    return [group, evaluation, held, texts, digests(), transcripts()]


def digests() -> Group:
    """The input is the behaviour in canonical form."""
    group, scored = Group("environment-digest"), ["3 + 4?", "0.000000", "1.000000"]
    for name, behaviour in (
        ("four questions", [scored] * 4),
        ("another score", [scored] * 3 + [[*scored[:2], "0.999999"]]),
        ("another order", [["a", *scored[1:]], *[scored] * 3]),
        ("no questions", [[]] * 4),
        ("a question that is not scored", [scored, [], scored, scored]),
        ("prompts beyond ASCII", [['\u00e9\u2028\U0001f41d\n"\\/', *scored[1:]]] * 4),
    ):
        for salt in ("", "s", "\u00e9 "):
            text = f"swarm-node/{VERSION}/environment\0{salt}\0".encode() + canonical(behaviour)
            digest = hashlib.sha256(text).digest()[: LIMITS["HOLDING_BYTES"]]
            group.valid(
                name,
                canonical(behaviour),
                urlsafe_b64encode(digest).rstrip(b"=").decode(),
                salt=salt,
            )
    return group


def transcripts() -> Group:
    """The input is the transcript in canonical form, its output the trace."""
    group, opening = Group("transcript"), "Guess my number from 1 to 7 in 3 guesses."
    for name, replies, done in (
        ("one turn, and then nothing", [[]], True),
        ("left by the policy", [["higher"], ["lower"]], False),
        ("ended by the environment", [["higher"], ["lower"], []], True),
        ("the same, not ended", [["higher"], ["lower"], []], False),
        ("a reply for each call", [["2", "error: no tool x, but calculate"], ["3"], []], True),
        ("replies beyond ASCII", [['\u00e9\u2028\U0001f41d\n"\\/'], []], True),
    ):
        text = f"swarm-node/{VERSION}/transcript\0".encode() + canonical([opening, replies, done])
        trace = hashlib.sha256(text).digest()[: LIMITS["HOLDING_BYTES"]]
        group.valid(
            name,
            canonical([opening, replies, done]),
            urlsafe_b64encode(trace).rstrip(b"=").decode(),
        )
    return group


def _near() -> Iterator[int]:
    """Rounds of ANN whose seed would be near a held-out one: one in 65,000."""
    blocked = {seed + distance for seed in _HELD_OUT for distance in range(-NEAR, NEAR + 1)}
    for round in range(300_000):
        if _number(f"swarm-node/{VERSION}/question-seed\0{SWARM}\0{ANN.peer}\0{round}") in blocked:
            yield round
