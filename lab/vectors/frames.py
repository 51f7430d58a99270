"""Requests and replies of the stream protocols."""

import struct
from typing import Any

from lab.vectors.forms import LIMITS, SWARM, VERSION, Group, canonical
from lab.vectors.keys import ANN, sealed
from lab.vectors.messages import announcement_message, group_message, wrong_shapes

TAG, KEY_TAG, SEALED = bytes(range(8)), bytes(range(8, 16)), sealed(canonical(announcement_message()), "announcement")


def frames() -> list[Group]:
    return [exchange_requests(), exchange_replies(), pull_requests(), pull_replies(), hellos(), punches()]


def exchange_requests() -> Group:
    group, most, names = Group("exchange-request"), LIMITS["MAX_EXCHANGED"], LIMITS["MAX_DIGEST"]
    room = LIMITS["MAX_ANNOUNCEMENT_BYTES"]

    def request(limit: int, digest: dict[bytes, int], announced: bytes = b"", count: int | None = None) -> bytes:
        entries = b"".join(tag + struct.pack(">I", seq) for tag, seq in digest.items())
        return TAG + bytes([limit, len(digest) if count is None else count]) + entries + announced

    def many(count: int) -> dict[bytes, int]:
        return {struct.pack(">Q", number): number for number in range(count)}

    def add(comment: str, limit: int, digest: dict[bytes, int], announced: bytes = b"", *flags: str) -> None:
        told = {tag.hex(): seq for tag, seq in digest.items()}
        output = {"tag": TAG.hex(), "limit": limit, "digest": told, "announcement": announced.hex()}
        group.valid(comment, request(limit, digest, announced), output, *flags)

    for limit in (0, 1, most):
        add(f"{limit} wanted", limit, {}, b"", "Limit")
    group.invalid(f"{most + 1} wanted", request(most + 1, {}), "malformed", "Limit")
    group.invalid("255 wanted", request(255, {}), "malformed", "Limit")
    add("one peer is known", 12, {KEY_TAG: 299})
    add("an announcement", 12, {KEY_TAG: 299}, SEALED)
    add("one byte of an announcement", 12, {KEY_TAG: 0}, b"\0")
    add("the highest number", 12, {KEY_TAG: 2**32 - 1})
    add(f"{names} peers", 12, many(names), b"", "Limit")
    group.invalid(f"{names + 1} peers", request(12, many(names + 1)), "malformed", "Limit")
    group.invalid("255 peers", request(12, many(255)), "malformed", "Limit")
    add(f"an announcement of {room} bytes", 1, {}, b"a" * room, "Limit")
    group.invalid(f"an announcement of {room + 1} bytes", request(1, {}, b"a" * (room + 1)), "malformed", "Limit")
    add("as long as a request can be", 24, many(names), b"a" * room, "Limit")
    longest = LIMITS["MAX_EXCHANGE_REQUEST_BYTES"]
    group.invalid(f"{longest} zeros", bytes(longest), "malformed", "Limit")
    group.invalid(f"{longest + 1} zeros", bytes(longest + 1), "too big", "Limit")
    whole = request(12, {KEY_TAG: 299, TAG: 1})
    for size in (0, 1, 7, 8, 9, 10, 11, 21, 22, 33):
        if size != 10:
            group.invalid(f"cut off after {size} bytes", whole[:size], "malformed", "CutOff")
    group.invalid("a peer more than there is", request(12, {KEY_TAG: 1}, b"", 2), "malformed", "CutOff")
    return group


def exchange_replies() -> Group:
    group, most, room = Group("exchange-reply"), LIMITS["MAX_EXCHANGED"], LIMITS["MAX_ANNOUNCEMENT_BYTES"]

    def reply(*items: tuple[int, bytes], count: int | None = None) -> bytes:
        parts = b"".join(struct.pack(">HH", age, len(data)) + data for age, data in items)
        return bytes([len(items) if count is None else count]) + parts

    def add(comment: str, *items: tuple[int, bytes], flags: tuple[str, ...] = ()) -> None:
        group.valid(comment, reply(*items), [{"age": age, "sealed": data.hex()} for age, data in items], *flags)

    add("no announcement")
    add("an announcement", (15, SEALED))
    add("two", (0, SEALED), (LIMITS["MAX_AGE_DECISECONDS"], b"\1"))
    add("an empty one", (0, b""))
    add(f"{most}", *[(1, b"a")] * most, flags=("Limit",))
    group.invalid(f"{most + 1}", reply(*[(1, b"a")] * (most + 1)), "malformed", "Limit")
    add(f"one of {room} bytes", (1, b"a" * room), flags=("Limit",))
    group.invalid(f"one of {room + 1} bytes", reply((1, b"a" * (room + 1))), "malformed", "Limit")
    add("as much as a reply can hold", *[(65535, b"a" * room)] * most, flags=("Limit",))
    longest = LIMITS["MAX_EXCHANGE_REPLY_BYTES"]
    group.invalid(f"{longest} zeros", bytes(longest), "malformed", "Limit")
    group.invalid(f"{longest + 1} zeros", bytes(longest + 1), "too big", "Limit")
    group.invalid("nothing: a refusal, and no reply", b"", "malformed")
    group.invalid("255 items", b"\xff" + bytes(4 * 255), "malformed", "Limit")
    whole = reply((15, b"abc"), (16, b"de"))
    for size in range(1, len(whole)):
        group.invalid(f"cut off after {size} bytes", whole[:size], "malformed", "CutOff")
    group.invalid("a byte behind", whole + b"\0", "malformed")
    group.invalid("an item fewer than there are", reply((1, b"a"), (2, b"b"), count=1), "malformed")
    group.invalid("a length beyond the end", b"\1\0\1\0\5abc", "malformed")
    return group


def pull_requests() -> Group:
    group, most = Group("pull-request"), LIMITS["MAX_PULLED"]
    for count in (1, 2, most):
        keys = [bytes([number]) * 32 for number in range(count)]
        output = {"tag": TAG.hex(), "hashes": [key.hex() for key in keys]}
        group.valid(f"{count} hashes", TAG + b"".join(keys), output, *(["Limit"] if count == most else []))
    group.valid("a hash twice", TAG + bytes(64), {"tag": TAG.hex(), "hashes": [bytes(32).hex()] * 2})
    for count in (0, most + 1):
        group.invalid(f"{count} hashes", TAG + bytes(32 * count), "malformed", "Limit")
    for size in (0, 1, 7, 9, 39, 41, 71, 73):
        group.invalid(f"{size} bytes", bytes(size), "malformed", "CutOff")
    return_too_big = LIMITS["MAX_PULL_REQUEST_BYTES"]
    for size in (return_too_big, return_too_big + 1, 8 + 32 * 64):
        group.invalid(f"{size} bytes", bytes(size), ("malformed", "too big"), "Limit")
    return group


def pull_replies() -> Group:
    group, room = Group("pull-reply"), LIMITS["MAX_MESSAGE_BYTES"]
    envelope = sealed(canonical(group_message()), "rollout-group")

    def reply(*envelopes: bytes) -> bytes:
        return b"".join(struct.pack(">I", len(each)) + each for each in envelopes)

    def add(comment: str, *envelopes: bytes, flags: tuple[str, ...] = ()) -> None:
        output = [each.hex() for each in envelopes] if sum(map(len, envelopes)) < 5000 else None
        group.valid(comment, reply(*envelopes), output, *flags, count=len(envelopes))

    add("an envelope", envelope)
    add("an envelope, and one that is not held", envelope, b"")
    add("none of eight is held", *[b""] * 8)
    add("what is no envelope, which is seen later", b"abc")
    add(f"{room} bytes", b"a" * room, flags=("Limit",))
    group.invalid(f"{room + 1} bytes", reply(b"a" * (room + 1)), "malformed", "Limit", count=1)
    total = LIMITS["MAX_PULL_REPLY_BYTES"]
    full = [b"a" * room] * 7 + [b"a" * (room - 32)]
    add("as much as a reply can hold", *full, flags=("Limit",))
    group.invalid("a byte more", reply(*full[:7], full[7] + b"a"), "too big", "Limit", count=8)
    group.invalid(f"{total + 1} zeros", bytes(total + 1), "too big", "Limit", count=1)
    whole = reply(b"abc", b"", b"de")
    for size in range(len(whole)):
        group.invalid(f"cut off after {size} bytes", whole[:size], "malformed", "CutOff", count=3)
    for count in (1, 2, 4, 8):
        group.invalid(f"{count} were asked for, and 3 come", whole, "malformed", count=count)
    group.invalid("a byte behind", whole + b"\0", "malformed", count=3)
    group.invalid("the largest length", b"\xff" * 4, "malformed", count=1)
    group.invalid("nothing: a refusal, and no reply", b"", "malformed", count=1)
    return group


def hellos() -> Group:
    message: dict[str, Any] = {"swarm": SWARM, "versions": [VERSION]}
    group, name, most = Group("hello", canonical(message)), LIMITS["MAX_NAME_CHARS"], LIMITS["MAX_HELLO_VERSIONS"]

    def add(comment: str, right: bool, *flags: str, **fields: Any) -> None:
        data = canonical(message | fields)
        if right:
            group.valid(comment, data, message | fields, *flags)
        else:
            group.invalid(comment, data, "malformed", *flags)

    add("a hello", True)
    for versions in ([0], [1, 2], [2, 1], [3, 3], [LIMITS["MAX_SEED"]], [1] * most):
        add(f"versions {versions[:3]}", True, versions=versions)
    for versions in ([], [1] * (most + 1), [LIMITS["MAX_SEED"] + 1], [-1], ["1"], [True], [1, None]):
        add(f"versions {versions[:3]}", False, "Limit", versions=versions)
    for size in (1, name):
        add(f"a name of {size}", True, "Limit", swarm="s" * size)
    for swarm in ("", "s" * (name + 1), "a\x1b", "a b", "a\n", "\u00fc"):
        add(f"the name {swarm[:5]!r}", False, "Limit", swarm=swarm)
    for comment, wrong, flag in wrong_shapes(message):
        group.invalid(comment, canonical(wrong), "malformed", flag)
    for size in (LIMITS["MAX_HELLO_BYTES"], LIMITS["MAX_HELLO_BYTES"] + 1):
        big = canonical({"swarm": "s" * name, "versions": [LIMITS["MAX_SEED"]] * 14})
        padded = big + b" " * (size - len(big))
        reasons = ("malformed", "not canonical") if size == LIMITS["MAX_HELLO_BYTES"] else "too big"
        group.invalid(f"{size} bytes", padded, reasons, "Limit")
    group.invalid("a space", canonical(message).replace(b":", b": ", 1), ("malformed", "not canonical"))
    return group


def punches() -> Group:
    group = Group("punch")
    four, six = bytes.fromhex("04cb0071077a62"), bytes.fromhex("0620010db80000000000000000000000012328")
    as_four, as_six = {"ip": "203.0.113.7", "port": 31330}, {"ip": "2001:db8::1", "port": 9000}
    zero, last = {"ip": "0.0.0.0", "port": 0}, {"ip": "255.255.255.255", "port": 65535}
    for comment, data, output in (
        ("no endpoint", b"\0", []), ("IPv4", b"\1" + four, [as_four]), ("IPv6", b"\1" + six, [as_six]), ("both", b"\2" + four + six, [as_four, as_six]),
        ("IPv6 first", b"\2" + six + four, [as_six, as_four]), ("zeros", b"\1\4" + bytes(6), [zero]), ("ones", b"\1\4" + b"\xff" * 6, [last]),
    ):  # fmt: skip
        group.valid(comment, data, output)
    for comment, data in (
        ("nothing: a refusal, and no reply", b""), ("IPv4 twice", b"\2" + four + four), ("IPv6 twice", b"\2" + six + six), ("three", b"\3" + four + six + four),
        ("255", b"\xff" + four), ("a byte behind", b"\1" + four + b"\0"), ("another endpoint behind", b"\1" + four + six), ("a family 5", b"\1\5" + bytes(6)),
        ("a family 0", b"\1\0" + bytes(6)), ("no endpoint, and a byte", b"\0\0"), ("one fewer than said", b"\2" + four), ("IPv4 as family 6", b"\1\6" + four[1:]),
    ):  # fmt: skip
        group.invalid(comment, data, "malformed")
    whole = b"\2" + four + six
    for size in range(1, len(whole)):
        group.invalid(f"cut off after {size} bytes", whole[:size], "malformed", "CutOff")
    longest = LIMITS["MAX_PUNCH_BYTES"]
    group.invalid(f"{longest} bytes", b"\2" + bytes(longest - 1), "malformed", "Limit")
    group.invalid(f"{longest + 1} bytes", b"\2" + bytes(longest), "too big", "Limit")
    return group
