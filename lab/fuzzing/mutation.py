"""Makes inputs that are almost right: changes bytes and numbers, and exchanges parts of JSON.

A fuzzer keeps an input with a new outcome and changes it further, so that a run works its way into
a decoder.
"""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

MAX_BYTES = 80 * 1024
NUMBERS = (0, 1, 7, 8, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
TOKENS = (
    b"", b"0", b"-1", b"1e999", b"NaN", b"Infinity", b"null", b"true", b"{}", b"[]", b'""',
    b"\\u0000", b"\\ud800", b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"\x1b[2J", b"9" * 400,
    b"9" * 5000, b"[" * 3000, b'{"a":' * 2000, b'"' * 50, b"\xe2\x80\xae", b"/p2p/",
    b"/ip4/1.2.3.4/tcp/1", b"/dns/", b"__import__('os')", b"<answer>", b"=" * 99, b"A" * 20000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 255, 256, 2**31 - 1, 2**31, 2**53, 2**64, -(2**63), 0.5, 1e308, "",
    "0", "\x00", "\ud7ff", "a" * 65, "a" * 20000, "../..", "\u202e", "\x1b[2J", [], [None],
    [[]] * 300, {}, {"": ""}, {"author": 1}, "é" * 300,
)  # fmt: skip


def mutate(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The data after one to four changes. `others`: inputs whose parts may be joined to it."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        data = rng.choice(_CHANGES)(rng, data, others)[:MAX_BYTES]
    return data


def mutate_json(rng: Random, data: bytes) -> bytes:
    """The JSON with one part exchanged, left out or repeated, in canonical form; rarely only in
    another spelling.
    """
    try:
        value = json.loads(data)
        changed = _exchange(rng, value)
        form: dict[str, Any] = {"ensure_ascii": False, "sort_keys": True, "separators": (",", ":")}
        if rng.random() < 0.1:
            changed, form = (
                value,
                form | rng.choice(({"ensure_ascii": True}, {"separators": None}, {"indent": 0})),
            )
        text = json.dumps(changed, **form)
        return text.encode("utf-8", "surrogatepass")[:MAX_BYTES]
    except (ValueError, TypeError, RecursionError):
        return data


def _exchange(rng: Random, value: Any) -> Any:
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return _other(rng, value)
    if isinstance(value, dict):
        key = rng.choice(sorted(value))
        rest = {name: each for name, each in value.items() if name != key}
        kind = rng.random()
        if kind < 0.1:
            return rest
        return rest | {key + "x" if kind < 0.2 else key: _exchange(rng, value[key])}
    place = rng.randrange(len(value))
    if rng.random() < 0.2:
        return (
            value[:place]
            + value[place : place + 1] * rng.choice((0, 2, 3, 70))
            + value[place + 1 :]
        )
    return [*value[:place], _exchange(rng, value[place]), *value[place + 1 :]]


def _other(rng: Random, value: Any) -> Any:
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice((-1, 1, 2**31))
    if isinstance(value, str) and value and rng.random() < 0.5:
        place = rng.randrange(len(value))
        return (
            value[:place]
            + chr(rng.choice((0, 32, 48, 65, 127, 233, 0x202E, 0xFFFF, 0x1F41D)))
            + value[place + 1 :]
        )
    return rng.choice(VALUES)


def _flip(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return data
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def _random_bytes(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.randbytes(rng.randint(1, 16)) + data[place + rng.choice((0, 4)) :]


def _token(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(TOKENS) + data[place + rng.choice((0, 1, 8)) :]


def _cut(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    begin, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:begin] + data[end:] if rng.random() < 0.7 else data[begin:end]


def _repeat(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    begin, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:end] + data[begin:end] * rng.choice((1, 2, 20)) + data[end:]


def _splice(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _number(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    width = rng.choice((1, 2, 4))
    place = rng.randrange(max(1, len(data) - width + 1))
    return (
        data[:place]
        + (rng.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width, "big")
        + data[place + width :]
    )


def _grow(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data + rng.choice((b"\x00", b"9", b"[", b"\xff", data[:64] or b"x")) * rng.choice(
        (10, 1000, 60000)
    )


_CHANGES = (_flip, _flip, _random_bytes, _token, _cut, _repeat, _splice, _number, _number, _grow)
