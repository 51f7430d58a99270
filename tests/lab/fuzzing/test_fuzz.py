"""A bounded run of `lab.fuzzing.fuzz`; the long one is run by hand. Also tests that it finds
faults.
"""

import json
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest

from lab.fuzzing import fuzz
from lab.fuzzing.mutation import MAX_BYTES, mutate
from lab.fuzzing.targets import decoders
from lab.vectors.forms import canonical
from lab.vectors.reading import FRAMES
from protocol import card, codec, limits, member, wire
from protocol.codec import decode
from protocol.messages import Message, Rejected


def test_nothing_a_stranger_sends_raises_hangs_or_stays() -> None:
    result = fuzz.run(inputs=9_000, seed=20)
    assert (
        result["failures"] == {}
        and result["raised"] == result["admitted"] == 0
        and result["inputs"] >= 9_000
    )
    assert result["rss_mb"][-1] - result["rss_mb"][2] < 16, result["rss_mb"]
    assert max(row["slowest_ms"] for row in result["targets"].values()) < 2000


def test_seeds_are_accepted_and_most_of_what_is_made_of_them_is_not() -> None:
    for name, target in decoders().items():
        assert all(target.run(seed) == "ok" for seed in target.seeds), name
        assert len(fuzz.fuzz(name, target, 200, seed=1).outcomes) >= 2, name


def any_signature(author: str, domain: bytes, message: bytes, signature: bytes) -> bool:
    return len(signature) == limits.SIGNATURE_BYTES


def any_spelling(data: bytes, kind: type[Message]) -> Message | Rejected:
    with suppress(ValueError, RecursionError):
        data = canonical(json.loads(data))
    return decode(data, kind)


def a_byte_behind(data: bytes) -> list[wire.CarriedAnnouncement] | Rejected:
    found = wire.decode_items(data)
    return wire.decode_items(data[:-1]) if isinstance(found, Rejected) else found


def no_length(data: bytes) -> list[wire.Endpoint] | Rejected:
    return wire.decode_punch(data) if data[0] else []


@pytest.mark.parametrize(
    ("name", "hole", "raised"),
    [
        ("rollout-group", (codec, "verify", any_signature), False),
        ("card", (card, "verify", any_signature), False),
        ("member", (member, "verify", any_signature), False),
        ("payload", (codec, "decode", any_spelling), False),
        ("exchange-reply", a_byte_behind, False),
        ("punch", no_length, True),
    ],
)
def test_a_planted_hole_is_found(
    name: str, hole: Any, raised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(hole, tuple):
        monkeypatch.setattr(*hole)
    else:
        monkeypatch.setitem(cast(dict[str, Any], FRAMES), name, (hole, *FRAMES[name][1:]))
    tally = fuzz.fuzz(name, decoders()[name], 3000, seed=2)
    assert tally.raised if raised else tally.admitted


@pytest.mark.parametrize("seed", range(3))
def test_mutations_are_bounded_and_repeatable(seed: int) -> None:
    def inputs() -> list[bytes]:
        rng, data = Random(seed), b'{"a":[1,2,3]}'
        return [data := mutate(rng, data or b"x", [data, b"other"]) for _ in range(200)]

    made = inputs()
    assert made == inputs() and max(map(len, made)) <= MAX_BYTES and len(set(made)) > 150
