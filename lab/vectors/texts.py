"""The canonical form: JSON that is it, JSON that means the same, and what is no message. Cases stand in texts.toml."""

import hashlib
import json
import tomllib
from pathlib import Path

from lab.vectors.forms import LIMITS, Group, canonical
from lab.vectors.messages import SPELLING, group_message

CASES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ROOM = LIMITS["MAX_MESSAGE_BYTES"] - LIMITS["SIGNATURE_BYTES"]


def canonical_forms() -> list[Group]:
    base = canonical(group_message(3, "a/b"))
    group = Group("payload", base, common={"kind": "rollout-group"})

    def replaced(before: str | bytes, after: str | bytes) -> bytes:
        one, other = (each.encode() if isinstance(each, str) else each for each in (before, after))
        assert one in base, before
        return base.replace(one, other, 1)

    def read(comment: str, data: bytes) -> None:
        group.valid(comment, data, hashlib.sha256(data).hexdigest())

    for comment, before, after in CASES["valid"]:
        read(comment, replaced(before, after))
    for code in range(32):
        escaped = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}.get(code, f"\\u{code:04x}")
        read(f"U+{code:04X}, escaped", replaced("a/b", escaped))
        group.invalid(f"U+{code:04X} as itself", replaced("a/b", bytes([code])), "malformed")
        if escaped != f"\\u{code:04X}":
            group.invalid(f"U+{code:04X}, escaped otherwise", replaced("a/b", f"\\u{code:04X}"), SPELLING)
    for comment, before, after in CASES["spelling"]:
        group.invalid(comment, replaced(before, after), SPELLING)
    for comment, before, after in CASES["malformed"]:
        group.invalid(comment, replaced(before, after), "malformed")
    for comment, whole in CASES["other"]:
        group.invalid(comment, whole.encode(), "malformed")
    for comment, octets in CASES["bytes"]:
        group.invalid(f"no UTF-8: {comment}", replaced("a/b", bytes.fromhex(octets)), "malformed", "InvalidUtf8")
    for code in ("utf-16", "utf-16-le", "utf-32"):
        group.invalid(f"in {code}", base.decode().encode(code), "malformed", "InvalidUtf8")
    for comment, bomb in (("brackets", b"[" * 60000), ("nines", b"9" * 60000), ("objects", b'{"a":' * 12000), ("a text without end", b'"' + b"a" * 60000),
                          ("depth 300", b"[" * 300 + b"]" * 300), ("items", b"[" + b"1," * 30000 + b"1]")):  # fmt: skip
        group.invalid(f"{comment} alone", bomb, "malformed", "Bomb")
        group.invalid(f"{comment} for a number", replaced('"round":3', b'"round":' + bomb), "malformed", "Bomb")
    for size in (ROOM, ROOM + 1):
        group.invalid(f"{size} bytes", b" " * size, "too big" if size > ROOM else "malformed", "Limit")
    group.invalid("a million brackets", b"[" * 1_000_000, "too big", "Bomb")
    return [group, encodings(base)]


def encodings(base: bytes) -> Group:
    """What makes a message gives it the one form, or none where it is too big to travel."""
    group = Group("message", base, common={"kind": "rollout-group"})
    for comment, text in (
        ("as it is", "a/b"),
        ("every control character", "".join(map(chr, range(32))) + "\x7f\x80"),
        ("quotes", '"\\/'),
        ("lines", "\u2028\ufeff\U0001f41d"),
    ):
        message = group_message(3, text)
        output = hashlib.sha256(canonical(message)).hexdigest()
        group.valid(comment, canonical(message), output)
        group.valid(
            f"{comment}, escaped and in another order", json.dumps(dict(reversed(message.items()))).encode(), output
        )
    longest = ["a" * LIMITS["MAX_EPISODE_CHARS"]] * 3
    room = ROOM - len(canonical(group_message(3, *longest, "")))
    for size in (room, room + 1):
        data = canonical(group_message(3, *longest, "a" * size))
        if size == room:
            group.valid("the largest message", data, hashlib.sha256(data).hexdigest(), "Limit")
        else:
            group.invalid("a byte more", data, "too big", "Limit")
    return group
