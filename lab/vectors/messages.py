"""Rollout groups and announcements: each field missing, of another type and at its limits, and what is admitted."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from lab.vectors.forms import LIMITS, SWARM, VERSION, Group, canonical
from lab.vectors.keys import ANN, BOB, EVE, Key, peer_id, sealed, weak_keys
from lab.vectors.seeds import question_seed

Path = Sequence[str | int]
TASK = {"environment": "reasoning_gym", "version": "0.1.25", "dataset": "chain_sum", "config_id": "easy"}
SPELLING = ["malformed", "not canonical"]  # both are right
OTHERS: tuple[Any, ...] = (None, True, 1, 0.5, "x", [], {})


def group_message(round: int = 0, *texts: str, author: Key = ANN, **question: Any) -> dict[str, Any]:
    """A group that BOB admits; `question` changes its address."""
    asked = {**TASK, "seed": question_seed(author.peer, round), "index": 0} | question
    completions = [{"text": text, "ended": True} for text in (texts or ("4",)) + ("five",)]
    return {"author": author.peer, "round": round, "question": asked, "completions": completions}


def announcement_message(author: Key = ANN, **fields: Any) -> dict[str, Any]:
    addresses = ["/ip4/203.0.113.7/tcp/31330", "/dns4/node.example/udp/31330/quic-v1"]
    hashes = {"groups": [hashed(32)], "held": [hashed(8), hashed(8, 1)]}
    return {"addresses": addresses, "author": author.peer, **hashes, "round": 7, "seq": 300} | fields


def hashed(size: int, number: int = 0) -> str:
    return urlsafe_b64encode(hashlib.sha256(b"%d" % number).digest()[:size]).rstrip(b"=").decode()


def places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field at any depth; of an array its first item alone."""
    yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def changed(message: Any, path: Path, *value: Any) -> Any:
    """A copy with this value in the place, or without the field."""
    if not path:
        return value[0]
    copy = deepcopy(message)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value:
        inner[path[-1]] = value[0]
    else:
        del inner[path[-1]]
    return copy


def wrong_shapes(message: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Comment, message, flag."""
    for path, value in places(message):
        name = ".".join(map(str, path)) or "the message"
        if path and isinstance(path[-1], str):
            yield f"{name} is missing", changed(message, path), "MissingField"
        for other in OTHERS:
            if type(other) is not type(value):
                yield f"{name} is {canonical(other).decode()}", changed(message, path, other), "WrongType"
        if isinstance(value, dict):
            yield f"{name} has one more field", changed(message, path, {**value, "reward": 1}), "ExtraField"
        if isinstance(value, int) and not isinstance(value, bool):
            yield f"{name} is a text", changed(message, path, str(value)), "WrongType"
            yield f"{name} is -1", changed(message, path, -1), "Limit"


def numbers(message: Any, path: Path, highest: int) -> Iterator[tuple[str, Any, bool]]:
    for value in (0, highest - 1, highest, highest + 1, 2**31, 2**32, 2**53, 2**64):
        if value <= highest + 1 or value > 2**31 - 1:
            yield f"{path[-1]} is {value}", changed(message, path, value), value <= highest


def sizes(message: Any, path: Path, item: Any, low: int, high: int) -> Iterator[tuple[str, Any, bool]]:
    """A text of so many `item`, or a list of them."""
    for count in {low - 1, low, high, high + 1} - {-1}:
        value = item * count if isinstance(item, str) and path[-1] in TEXTS else [item] * count
        yield f"{'.'.join(map(str, path))} of {count}", changed(message, path, value), low <= count <= high


TEXTS = ("environment", "version", "dataset", "config_id", "text", "swarm")


def bad_names(message: Any, path: Path) -> Iterator[tuple[str, Any, bool]]:
    for name in ("", "../a", "a b", "a\n", "\n", "a\0", "\u00fc", "a/b", "a:b", "\u0660"):
        yield f"{path[-1]} is {name!r}", changed(message, path, name), False


def group_limits() -> Iterator[tuple[str, Any, bool]]:
    message = group_message(3, "a/b")
    yield from numbers(message, ("question", "index"), LIMITS["MAX_QUESTIONS_PER_ROUND"] - 1)
    for name in TASK:
        yield from sizes(message, ("question", name), "n", 1, LIMITS["MAX_NAME_CHARS"])
        yield from bad_names(message, ("question", name))
    yield from sizes(message, ("completions",), {"text": "4", "ended": True}, LIMITS["MIN_COMPLETIONS"], LIMITS["MAX_COMPLETIONS"])
    yield from sizes(message, ("completions", 0, "text"), "a", 0, LIMITS["MAX_COMPLETION_CHARS"])
    yield from sizes(message, ("completions", 0, "text"), "\u3042", 0, LIMITS["MAX_COMPLETION_CHARS"])
    yield "10,000 characters beyond the first plane", changed(message, ("completions", 0, "text"), "\U0001f41d" * 10_000), True


def groups() -> list[Group]:
    base = canonical(group_message(3, "a/b"))
    question = {**group_message()["question"]}
    known = [{name: question[name] for name in TASK}]
    for name in TASK:  # at their limits, too
        for size in (1, LIMITS["MAX_NAME_CHARS"]):
            known.append({**known[0], name: "n" * size})
    rules = {"swarm": SWARM, "receiver": BOB.peer, "known": known}
    group = Group("rollout-group", base, 64, rules)

    def add(comment: str, message: Any, reasons: str | Sequence[str] = (), *flags: str, key: Key = ANN) -> None:
        put(group, "rollout-group", comment, message, reasons, *flags, key=key)

    add("two completions", group_message())
    add("another author", group_message(author=EVE), key=EVE)
    for comment, message, flag in wrong_shapes(group_message(3, "a/b")):
        add(comment, message, "malformed", flag)
    for comment, message, right in group_limits():
        add(comment, message, () if right else "malformed", "Limit")
    for value in (0, LIMITS["MAX_ROUND"], LIMITS["MAX_ROUND"] + 1):
        right = value <= LIMITS["MAX_ROUND"]
        add(f"round {value}", group_message(value), () if right else "malformed", "Limit")
    add("seed of MAX_SEED + 1", group_message(3, seed=LIMITS["MAX_SEED"] + 1), "malformed", "Limit")
    longest = ["a" * LIMITS["MAX_COMPLETION_CHARS"]] * 3
    room = LIMITS["MAX_MESSAGE_BYTES"] - 64 - len(canonical(group_message(3, *longest, "")))
    add("the largest message", group_message(3, *longest, "a" * room), (), "Limit")
    add("a byte more", group_message(3, *longest, "a" * (room + 1)), "too big", "Limit")
    author = ANN.peer
    for comment, name in (("empty", ""), ("of another alphabet", "0" * 52), ("too long", author + "1"), ("of a weak key", peer_id(next(weak_keys())[1]))):
        add(f"author {comment}", {**group_message(3), "author": name}, "bad author")
    for size, reason in ((64, "bad author"), (65, "malformed")):
        add(f"author of {size} characters", {**group_message(3), "author": "1" * size}, reason, "Limit")
    add("signed by another", group_message(3), "bad signature", key=EVE)
    add("of the receiver", group_message(3, author=BOB), "local message", key=BOB)
    add("in the receiver's name", group_message(3, author=BOB), "bad signature")
    for comment, seed in (
        ("0", 0), ("one more", question_seed(author, 3) + 1), ("of the next round", question_seed(author, 4)), ("of another author", question_seed(EVE.peer, 3)),
        ("for another swarm", question_seed(author, 3, "other")),
    ):  # fmt: skip
        if seed != question_seed(author, 3):
            add(f"seed {comment}", group_message(3, seed=seed), "wrong seed")
    for name in TASK:
        for value in ("other", ".", "__import__", question[name] + "2"):
            add(f"{name} is {value}", group_message(3, **{name: value}), "unknown question")
    add("wrong seed and unknown question", group_message(3, seed=1, dataset="other"), "wrong seed", "Order")
    payload = canonical(group_message(3, "a/b"))
    for comment, swarm in (("longer", SWARM + "2"), ("shorter", SWARM[:-1])):
        group.invalid(f"for a swarm of a {comment} name", sealed(payload, "rollout-group", swarm=swarm), "bad signature")
    group.invalid("signed as an announcement", sealed(payload, "announcement"), "bad signature")
    group.invalid("without a signature", payload, "malformed")
    group.invalid("a space, signed", sealed(payload.replace(b":", b": ", 1), "rollout-group"), SPELLING)
    for size in (0, 1, 63, 64, 65, 200, len(payload) + 63):
        group.invalid(f"cut off after {size} bytes", sealed(payload, "rollout-group")[:size], "malformed", "CutOff")
    for size in (LIMITS["MAX_MESSAGE_BYTES"], LIMITS["MAX_MESSAGE_BYTES"] + 1, 10**6):
        group.invalid(f"{size} zeros", bytes(size), "malformed" if size == LIMITS["MAX_MESSAGE_BYTES"] else "too big", "Limit")
    narrow = Group("rollout-group", base, 64, {**rules, "maxCompletions": 3, "maxCompletionChars": 5})
    for texts, reason in (
        (("4", "5"), ""), (("4", "5", "6"), "too many completions"), (("12345",), ""), (("123456",), "completion too long"), (("\U0001f41d" * 5,), ""),
        (("123456", "5", "6"), "too many completions"),
    ):  # fmt: skip
        put(narrow, "rollout-group", f"{len(texts) + 1} completions, {len(texts[0])} characters", group_message(3, *texts), reason, "Receiver")
    put(narrow, "rollout-group", "too long and unknown", group_message(3, "123456", dataset="other"), "completion too long", "Order")
    put(narrow, "rollout-group", "wrong seed and too long", group_message(3, "123456", seed=1), "wrong seed", "Order")
    return [group, narrow]


def put(group: Group, kind: str, comment: str, message: Any, reasons: str | Sequence[str], *flags: str, key: Key = ANN) -> None:
    data = sealed(canonical(message), kind, key)
    if reasons:
        group.invalid(comment, data, reasons, *flags)
    else:
        group.valid(comment, data, hashlib.sha256(data[64:]).hexdigest(), *flags)


def announcement_limits() -> Iterator[tuple[str, Any, bool]]:
    message = announcement_message()
    for name in ("round", "seq"):
        yield from numbers(message, (name,), LIMITS["MAX_ROUND" if name == "round" else "MAX_SEQUENCE"])
    yield from sizes(message, ("addresses",), "/ip4/1.2.3.4/tcp/1", 0, LIMITS["MAX_ADDRESSES"])
    yield from sizes(message, ("groups",), hashed(32), 0, LIMITS["MAX_ANNOUNCED_GROUPS"])
    yield from sizes(message, ("held",), hashed(8), 0, LIMITS["MAX_ANNOUNCED_HOLDINGS"])
    for family in ("ip4", "ip6", "dns", "dns4", "dns6"):
        yield f"an address with {family}", {**message, "addresses": [f"/{family}/a"]}, True
    for address in (
        "/ip4/" + "1" * (LIMITS["MAX_ADDRESS_CHARS"] - 5), "/ip6/2001:db8::1/udp/9/quic-v1", "/ip4/1.2.3.4/tcp/1/p2p/" + ANN.peer + "/p2p-circuit", "/dns/a_b/tcp/1",
    ):  # fmt: skip
        yield f"the address {address[:40]}", {**message, "addresses": [address]}, True
    for address in (
        "", "/", "/ip4/", "ip4/1.2.3.4/tcp/1", "/unix/tmp/socket", "/IP4/1.2.3.4", "/ip4/1.2.3.4/tcp/1 ", "/ip4/1.2.3.4/tcp/1\n", "/ip4/\x1b[2J", "/dns/\u00e9",
        "/dns/a%20b", "/ip5/1", "/ip44/1", "x/ip4/1.2.3.4", "/ip4/" + "1" * (LIMITS["MAX_ADDRESS_CHARS"] - 4), "/ip4/1\n/ip4/1",
    ):  # fmt: skip
        yield f"the address {address[:40]!r}", {**message, "addresses": ["/ip4/1.2.3.4/tcp/1", address]}, False
    for name, size in (("groups", 32), ("held", 8)):
        right = hashed(size)
        for bad in ("", right[:-1], right + "A", right[:-1] + "B", right[:-1] + "=", right + "=", "+" + right[1:], "/" + right[1:], right + "\n", " " + right[1:], "\u0660" + right[1:]):
            yield f"{name}: {bad[-9:]!r} at the end", {**message, name: [right, bad]}, False
        for last in "AEIMQUYcgkosw048":
            yield f"{name}: ends in {last}", {**message, name: [right[:-1] + last]}, True


def announcements() -> list[Group]:
    base = canonical(announcement_message())
    group = Group("announcement", base, 64, {"swarm": SWARM})

    def add(comment: str, message: Any, reasons: str | Sequence[str] = (), *flags: str, key: Key = ANN) -> None:
        put(group, "announcement", comment, message, reasons, *flags, key=key)

    add("an announcement", announcement_message())
    for comment, message, flag in wrong_shapes(announcement_message()):
        add(comment, message, "malformed", flag)
    for comment, message, right in announcement_limits():
        add(comment, message, () if right else "malformed", "Limit")
    largest = {"addresses": ["/dns4/" + "a" * (LIMITS["MAX_ADDRESS_CHARS"] - 6)] * LIMITS["MAX_ADDRESSES"], "groups": [hashed(32)] * LIMITS["MAX_ANNOUNCED_GROUPS"]}
    largest |= {"held": [hashed(8)] * LIMITS["MAX_ANNOUNCED_HOLDINGS"], "round": LIMITS["MAX_ROUND"], "seq": LIMITS["MAX_SEQUENCE"]}
    add("the largest announcement", announcement_message(**largest), (), "Limit")
    add("signed by another", announcement_message(), "bad signature", key=EVE)
    for comment, name in (("empty", ""), ("no id", "x" * 52), ("of a weak key", peer_id(next(weak_keys())[1])), ("of 64 characters", "1" * 64)):
        add(f"author {comment}", {**announcement_message(), "author": name}, "bad author")
    add("author of 65 characters", {**announcement_message(), "author": "1" * 65}, "malformed", "Limit")
    group.invalid("signed as a group", sealed(base, "rollout-group"), "bad signature")
    for swarm in ("other", SWARM + "2", SWARM[:-1]):
        group.invalid(f"for the swarm {swarm}", sealed(base, "announcement", swarm=swarm), "bad signature")
    for size in (0, 63, 64, 65, len(base) + 63):
        group.invalid(f"cut off after {size} bytes", sealed(base, "announcement")[:size], "malformed", "CutOff")
    for size in (LIMITS["MAX_ANNOUNCEMENT_BYTES"], LIMITS["MAX_ANNOUNCEMENT_BYTES"] + 1):
        reason = "malformed" if size == LIMITS["MAX_ANNOUNCEMENT_BYTES"] else "too big"
        group.invalid(f"{size} zeros", bytes(size), reason, "Limit")
        group.invalid(f"{size} bytes with spaces", sealed(base + b" " * (size - 64 - len(base)), "announcement"), SPELLING if reason == "malformed" else reason, "Limit")
    group.invalid("a space, signed", sealed(base.replace(b":", b": ", 1), "announcement"), SPELLING)
    return [group]


def hellos() -> list[Group]:
    message: dict[str, Any] = {"swarm": SWARM, "versions": [VERSION]}
    group = Group("hello", canonical(message))
    cases = [(comment, wrong, False, flag) for comment, wrong, flag in wrong_shapes(message)]
    limits = [*numbers(message, ("versions", 0), LIMITS["MAX_SEED"]), *bad_names(message, ("swarm",))]
    limits += sizes(message, ("versions",), 1, 1, LIMITS["MAX_HELLO_VERSIONS"])
    limits += sizes(message, ("swarm",), "n", 1, LIMITS["MAX_NAME_CHARS"])
    for comment, changed_one, right, flag in [*cases, *((*each, "Limit") for each in limits)]:
        data = canonical(changed_one)
        if right:
            group.valid(comment, data, changed_one, flag)
        else:
            group.invalid(comment, data, "malformed", flag)
    most = LIMITS["MAX_HELLO_BYTES"]
    for size, reasons in ((most, SPELLING), (most + 1, ["too big"])):
        group.invalid(f"{size} bytes", canonical(message).ljust(size), reasons, "Limit")
    return [group]
