"""Rollout groups, announcements and hellos: each field missing, of another type and at its limits
(messages.toml), and what a receiver admits.
"""

import hashlib
import tomllib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from lab.vectors.forms import LIMITS, SWARM, VERSION, Group, canonical
from lab.vectors.keys import ANN, BOB, EVE, Key, peer_id, sealed, weak_keys
from lab.vectors.seeds import question_seed

CASES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
NUMBERS = {**LIMITS, "MAX_INDEX": LIMITS["MAX_QUESTIONS_PER_ROUND"] - 1}
TASK = {
    "environment": "reasoning_gym",
    "version": "0.1.25",
    "dataset": "chain_sum",
    "config_id": "easy",
}
DIGEST = "AAECAwQFBgc"
OTHERS: tuple[Any, ...] = (None, True, 1, 0.5, "x", [], {})
SPELLING = ["malformed", "not canonical"]  # both reasons are right

Place = tuple[str | int, ...]
Change = tuple[str, Any, str, str]  # comment, message, reason or nothing, flag


def group_message(
    round: int = 0, *texts: str, author: Key = ANN, **question: Any
) -> dict[str, Any]:
    """A group of single answers that BOB admits; `question` changes its address."""
    seed = question_seed(author.peer, round)
    asked = {**TASK, "digest": DIGEST, "seed": seed, "index": 0} | question
    episodes = [answer(text) for text in (texts or ("4",)) + ("five",)]
    return {"author": author.peer, "round": round, "question": asked, "episodes": episodes}


def answer(text: str) -> dict[str, Any]:
    return {"ended": True, "trace": "", "turns": [{"calls": [], "text": text}]}


def several_turns() -> dict[str, Any]:
    call = {"arguments": '{"a": 3.0}', "name": "add"}
    turns = [{"calls": [call], "text": "I add."}, {"calls": [], "text": "4"}]
    return group_message(3) | {
        "episodes": [{"ended": True, "trace": "AAECAwQFBgc", "turns": turns}, answer("five")]
    }


def announcement_message(**fields: Any) -> dict[str, Any]:
    addresses = ["/ip4/203.0.113.7/tcp/31330", "/dns4/node.example/udp/31330/quic-v1"]
    named = {
        "groups": ["AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"],
        "held": ["AAECAwQFBgc", "AQIDBAUGBwg"],
    }
    return {"addresses": addresses, "author": ANN.peer, **named, "round": 7, "seq": 300} | fields


def places(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every field at any depth; of an array its first item alone."""
    yield path, value
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1])
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield from places(each, (*path, key))


def changed(message: Any, path: Place, *value: Any) -> Any:
    """A copy of the message with this value at `path`, or without the field if no value is
    given.
    """
    if not path:
        return value[0]
    copy = inner = deepcopy(message)
    for key in path[:-1]:
        inner = inner[key]
    if value:
        inner[path[-1]] = value[0]
    else:
        del inner[path[-1]]
    return copy


def shapes(message: Any) -> Iterator[Change]:
    for path, value in places(message):
        name = ".".join(map(str, path)) or "the message"
        if path and isinstance(path[-1], str):
            gone = changed(message, path)
            yield f"{name} is missing", gone, "malformed", "MissingField"
            yield (
                f"{name} is called x",
                changed(gone, (*path[:-1], "x"), value),
                "malformed",
                "MissingField",
            )
        numbers = [str(value), -1] if type(value) is int else []
        for other in (*(each for each in OTHERS if type(each) is not type(value)), *numbers):
            yield (
                f"{name} is {canonical(other).decode()}",
                changed(message, path, other),
                "malformed",
                "WrongType",
            )
        if isinstance(value, dict):
            yield (
                f"{name} has one more field",
                changed(message, path, {**value, "reward": 1}),
                "malformed",
                "ExtraField",
            )


def bounds(message: Any, cases: dict[str, Any]) -> Iterator[Change]:
    for name, highest in cases["numbers"]:
        most = NUMBERS[highest]
        for number in (0, most, most + 1, 2**31, 2**32, 2**53, 2**64):
            reason = "malformed" if number > most else ""
            yield f"{name} is {number}", changed(message, path_of(name), number), reason, "Limit"
    for name, item, *two in cases["sizes"]:
        low, high = (limit if isinstance(limit, int) else NUMBERS[limit] for limit in two)
        for count in sorted({low - 1, low, high, high + 1} - {-1}):
            value = (
                item * count
                if isinstance(reduce(getitem, path_of(name), message), str)
                else [item] * count
            )
            reason = "" if low <= count <= high else "malformed"
            yield f"{name} of {count}", changed(message, path_of(name), value), reason, "Limit"
    named = [(name, *CASES["names"]) for name in cases["named"]]
    for rows, reason in ((cases["right"], ""), ([*cases["wrong"], *named], "malformed")):
        for name, *values in rows:
            for value in values:
                yield (
                    f"{name} is {canonical(value).decode()[:40]}",
                    changed(message, path_of(name), value),
                    reason,
                    "",
                )


def path_of(name: str) -> Place:
    return tuple(int(part) if part.isdecimal() else part for part in name.split("."))


def payloads(kind: str, message: Any) -> Group:
    """Messages without signatures: `message` itself, and one test for each change of a field."""
    group = Group("payload", canonical(message), common={"kind": kind})
    for comment, each, reason, flag in (
        ("as it is", message, "", ""),
        *shapes(message),
        *bounds(message, CASES[kind]),
    ):
        put(group, comment, canonical(each), reason, flag)
    return group


def put(
    group: Group,
    comment: str,
    data: bytes,
    reasons: str | Sequence[str],
    flag: str = "",
    **fields: Any,
) -> None:
    """Adds an input, valid if there are no reasons against it. Its output is its content hash, or
    that of `named`.
    """
    flags, named = [flag] if flag else [], fields.pop("named", data[group.apart :])
    if reasons:
        group.invalid(comment, data, reasons, *flags, **fields)
    else:
        group.valid(comment, data, hashlib.sha256(named).hexdigest(), *flags, **fields)


def signed(kind: str, message: Any, **common: Any) -> Group:
    """What can be wrong with any message that is signed."""
    payload = canonical(message)
    group = Group(kind, payload, 64, {"swarm": SWARM, **common})
    put(group, "as it is", sealed(payload, kind), "")
    put(group, "signed by another", sealed(payload, kind, EVE), "bad signature")
    other = {"rollout-group": "announcement", "announcement": "rollout-group"}[kind]
    put(group, "signed as a message of another kind", sealed(payload, other), "bad signature")
    for swarm in (SWARM + "2", SWARM[:-1], SWARM.title()):
        put(
            group,
            f"signed for the swarm {swarm}",
            sealed(payload, kind, swarm=swarm),
            "bad signature",
        )
    put(group, "signed with spaces", sealed(payload.replace(b":", b": ", 1), kind), SPELLING)
    put(group, "without a signature", payload, "malformed")
    for size in (0, 1, 63, 64, 65, 200, len(payload) + 63):
        put(
            group,
            f"cut off after {size} bytes",
            sealed(payload, kind)[:size],
            "malformed",
            "CutOff",
        )
    weak = peer_id(next(weak_keys())[1])
    for author in ("", "0" * 52, ANN.peer + "1", ANN.peer[:-1], "1" * 64, weak):
        data = sealed(canonical({**message, "author": author}), kind)
        put(
            group,
            f"the author is {author[:9]!r}",
            data,
            "bad author",
            "WeakKey" if author == weak else "",
        )
    most = LIMITS["MAX_MESSAGE_BYTES" if kind == "rollout-group" else "MAX_ANNOUNCEMENT_BYTES"]
    for size, reason in ((most, "malformed"), (most + 1, "too big"), (10**6, "too big")):
        put(group, f"{size} zeros", bytes(size), reason, "Limit")
        if size < 10**6:
            padded = sealed(payload.ljust(size - 64), kind)
            put(
                group,
                f"{size} bytes, with spaces",
                padded,
                SPELLING if size == most else reason,
                "Limit",
            )
    return group


def groups() -> list[Group]:
    known = [
        {**TASK, "digest": DIGEST},
        *({**TASK, name: "n" * size} for name in TASK for size in (1, LIMITS["MAX_NAME_CHARS"])),
    ]
    rules = {"receiver": BOB.peer, "known": known}
    group = signed("rollout-group", group_message(3, "a/b"), **rules)
    narrow = Group(
        "rollout-group",
        group.base,
        64,
        {"swarm": SWARM, **rules, "maxEpisodes": 3, "maxEpisodeChars": 5},
    )

    def add(
        comment: str, message: Any, reason: str, flag: str = "", key: Key = ANN, to: Group = group
    ) -> None:
        put(to, comment, sealed(canonical(message), "rollout-group", key), reason, flag)

    add("of another author", group_message(author=EVE), "", key=EVE)
    add("of the receiver", group_message(3, author=BOB), "local message", key=BOB)
    add("in the receiver's name", group_message(3, author=BOB), "bad signature")
    for value in (0, 1, LIMITS["MAX_ROUND"]):
        add(f"round {value}", group_message(value), "", "Limit")
    longest = ["a" * LIMITS["MAX_EPISODE_CHARS"]] * 3
    room = LIMITS["MAX_MESSAGE_BYTES"] - 64 - len(canonical(group_message(3, *longest, "")))
    add("the largest message", group_message(3, *longest, "a" * room), "", "Limit")
    add("a byte more", group_message(3, *longest, "a" * (room + 1)), "too big", "Limit")
    add("characters beyond the first plane", group_message(3, "\U0001f41d" * 10_000), "", "Limit")
    own, others = question_seed(ANN.peer, 3), [question_seed(each.peer, 3) for each in (EVE, BOB)]
    others += [question_seed(ANN.peer, 4), question_seed(ANN.peer, 3, "other")]
    for seed in (0, own - 1, own + 1, own ^ 2**30, LIMITS["MAX_SEED"], *others):
        add(f"seed {seed}", group_message(3, seed=seed), "wrong seed")
    for name in TASK:
        for text in ("other", ".", "__import__", TASK[name] + "2"):
            add(
                f"{name} is {text}",
                changed(group_message(3), ("question", name), text),
                "unknown question",
            )
        for size in (1, LIMITS["MAX_NAME_CHARS"]):
            add(
                f"{name} of {size}",
                changed(group_message(3), ("question", name), "n" * size),
                "",
                "Limit",
            )
    add("another digest", group_message(3, digest="AAAAAAAAAAA"), "other environment")
    for reason, path, value in CASES["admission"]["several_turns"]:
        changes = [value] if value != "" else []
        add(
            f"{path} {value}",
            changed(several_turns(), path_of(path), *changes),
            reason,
            "Order" if value else "",
        )
    for reason, texts, address, flag in CASES["admission"]["narrow"]:
        comment = f"{len(texts) + 1} episodes, {texts[0]}, {address}"
        add(comment, group_message(3, *texts, **address), reason, flag, to=narrow)
    return [group, narrow, payloads("rollout-group", several_turns())]


def announcements() -> list[Group]:
    group, largest = (
        signed("announcement", announcement_message()),
        CASES["announcement"]["largest"],
    )
    message = announcement_message(
        **{name: [item] * count for name, (item, count) in largest.items()}
    )
    put(group, "the largest announcement", sealed(canonical(message), "announcement"), "", "Limit")
    return [group, payloads("announcement", announcement_message())]


def hellos() -> list[Group]:
    message = {"swarm": SWARM, "versions": [VERSION]}
    group, most = Group("hello", canonical(message)), LIMITS["MAX_HELLO_BYTES"]
    for size, reasons in ((most, SPELLING), (most + 1, ["too big"])):
        group.invalid(f"{size} bytes", canonical(message).ljust(size), reasons, "Limit")
    for versions in (
        [VERSION],
        [1, 2],
        [2, 1],
        [LIMITS["MAX_SEED"]] * LIMITS["MAX_HELLO_VERSIONS"],
    ):
        each = message | {"versions": versions}
        group.valid(f"{len(versions)} versions", canonical(each), each)
    return [group, payloads("hello", message)]
