"""Inputs in the canonical form, in other forms of the same message, and of no message. Cases stand
in texts.toml.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

from lab.vectors.forms import LIMITS, Group, canonical
from lab.vectors.messages import SPELLING, group_message, put

CASES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ROOM = LIMITS["MAX_MESSAGE_BYTES"] - LIMITS["SIGNATURE_BYTES"]


def canonical_forms() -> list[Group]:
    base = canonical(group_message(3, "a/b"))
    group = Group("payload", base, common={"kind": "rollout-group"})

    def change(
        comment: str, before: str, after: str | bytes, reasons: str | list[str], flag: str = ""
    ) -> None:
        assert before.encode() in base, before
        changed = after.encode() if isinstance(after, str) else after
        put(group, comment, base.replace(before.encode(), changed, 1), reasons, flag)

    for section, reasons in (("valid", ""), ("spelling", SPELLING), ("malformed", "malformed")):
        for comment, before, after in CASES[section]:
            change(comment, before, after, reasons)
    for code in range(32):
        escaped = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}.get(code, f"\\u{code:04x}")
        change(f"U+{code:04X}, escaped", "a/b", escaped, "")
        change(f"U+{code:04X} as itself", "a/b", bytes([code]), "malformed")
        if escaped != f"\\u{code:04X}":
            change(f"U+{code:04X}, escaped otherwise", "a/b", f"\\u{code:04X}", SPELLING)
    for comment, octets in CASES["bytes"]:
        change(f"no UTF-8: {comment}", "a/b", bytes.fromhex(octets), "malformed", "InvalidUtf8")
    for comment, *parts in CASES["bombs"]:
        bomb = b"".join(unit.encode() * count for unit, count in parts)
        put(group, f"{comment} alone", bomb, "malformed", "Bomb")
        change(f"{comment} for a number", '"round":3', b'"round":' + bomb, "malformed", "Bomb")
    for comment, data, reason, flag in _whole(base):
        put(group, comment, data, reason, flag)
    return [group, encodings(base)]


def _whole(base: bytes) -> Iterator[tuple[str, bytes, str, str]]:
    """Whole inputs, which are not made by a change of one place."""
    for comment, text in CASES["other"]:
        yield comment, text.encode(), "malformed", ""
    for code in ("utf-16", "utf-16-le", "utf-32"):
        yield f"in {code}", base.decode().encode(code), "malformed", "InvalidUtf8"
    for size in (ROOM, ROOM + 1, 10**6):
        yield f"{size} brackets", b"[" * size, "too big" if size > ROOM else "malformed", "Limit"


def encodings(base: bytes) -> Group:
    """Every way to make a message gives it its one form, or refuses it if it is too big to
    travel.
    """
    group, longest = (
        Group("message", base, common={"kind": "rollout-group"}),
        ["a" * LIMITS["MAX_EPISODE_CHARS"]] * 3,
    )
    for text in (
        "a/b",
        "".join(map(chr, range(32))) + "\x7f\x80",
        '"\\/',
        "\u2028\ufeff\U0001f41d",
    ):
        message = group_message(3, text)
        for data in (canonical(message), json.dumps(dict(reversed(message.items()))).encode()):
            group.valid(
                f"the text {text[:9]!r}", data, hashlib.sha256(canonical(message)).hexdigest()
            )
    put(group, "half of a surrogate pair", base.replace(b"a/b", b"\\ud83d"), "malformed")
    room = ROOM - len(canonical(group_message(3, *longest, "")))
    for size, reason in ((room, ""), (room + 1, "too big")):
        data = canonical(group_message(3, *longest, "a" * size))
        put(group, f"a message of {len(data)} bytes", data, reason, "Limit")
    return group
