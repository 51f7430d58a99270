"""Which dials are allowed, where and when. Cases stand in dials.toml."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.vectors.forms import Group
from lab.vectors.keys import Key

CASES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
PEERS = {letter: Key(letter.encode() * 32).peer for letter in "ABC"}
GIVEN = ["/ip4/45.1.1.1/tcp/22/p2p/{A}", "/dns4/door.example/tcp/22/p2p/{A}"]
Step = tuple[float, str, str, bool]  # second, address, what becomes of the dial, allowed


def dials() -> list[Group]:
    groups = [_group({}, _each(CASES["where"]["allowed"], CASES["where"]["refused"]))]
    for other in CASES["others"]:
        cases = {comment: other[comment] for comment in ("allowed", "refused")}
        comment = other.pop("comment")
        tests = _each({comment: cases["allowed"]}, {comment: cases["refused"]})
        groups.append(_group(other, tests))
    groups.append(_group({}, [*CASES["times"].items(), *_window()]))
    groups.append(_group({"given": GIVEN}, CASES["given_times"].items()))
    return groups


def _group(node: dict[str, Any], tests: Any) -> Group:
    fields = {name: node.get(name, usual) for name, usual in CASES["node"].items()}
    fields["given"] = [address.format(**PEERS) for address in fields["given"]]
    group = Group("dials", common=fields)
    for comment, steps in tests:
        told = [_told(*step) for step in steps]
        group.valid(comment, b"", [allowed for *_, allowed in steps], steps=told)
    return group


def _told(second: float, address: str, then: str, allowed: bool) -> dict[str, Any]:
    """A step as the vector has it: all but whether it is allowed, which is the output."""
    what, _, where = then.partition(" ")
    end = f"/p2p/{PEERS['A']}"
    step = {"at": second, "address": address.format(**PEERS) + end, "then": what}
    return step | ({"where": where} if where else {})


def _each(
    allowed: dict[str, list[str]], refused: dict[str, list[str]]
) -> Iterator[tuple[str, list[Step]]]:
    """A test for each address, which is dialled once, by itself."""
    for cases, result in ((allowed, True), (refused, False)):
        for comment, addresses in cases.items():
            for address in addresses:
                yield comment, [(0, address, "", result)]


def _window() -> Iterator[tuple[str, Sequence[Step]]]:
    """20 dials in 60 s, and 120,000 bytes, whose dials found nobody."""

    def tcp(number: int) -> str:
        return f"/ip4/45.0.{number}.1/tcp/31330"

    def quic(number: int) -> str:
        return f"/ip4/46.0.{number}.1/udp/31330/quic-v1"

    full: list[Step] = [(1, tcp(number), "", True) for number in range(20)]
    late: list[Step] = [(60, tcp(20), "", False), (61, tcp(20), "", True)]
    yield "20 dials a minute", [*full, (1, tcp(20), "", False), *late]
    failed: list[Step] = [(1, tcp(number), "fails", True) for number in range(20)]
    yield "failed ones count", [*failed, (1, tcp(20), "", False), *late]
    found: list[Step] = [(1, tcp(number), "answers", True) for number in range(40)]
    yield "those that found a peer do not", found
    loud: list[Step] = [(1, quic(number), "", True) for number in range(9)]
    less: list[Step] = [(2, tcp(number), "", True) for number in range(11)]
    yield "120,000 bytes a minute: 9 dials by QUIC", [*loud, (2, quic(9), "", False), *less]
    one: Step = (0, "/ip4/192.168.7.44/tcp/31330", "", True)
    local: list[Step] = [
        (0, f"/ip4/192.168.7.{number}/tcp/31330", "", True) for number in range(60, 79)
    ]
    yield "those of a local network count", [one, *local, (0, tcp(1), "", False)]
    known: list[Step] = [(0, tcp(30), "answers", True)]
    yield "where a peer answered no dial counts", [*known, *full, (2, tcp(30), "fails", True)]
    again: Step = (2, tcp(30), "answers", True)
    yield "and an answer there frees none", [*known, *full, again, (3, tcp(20), "", False)]
    port: list[Step] = [(0, f"/ip4/45.0.{number}.1/tcp/22", "", False) for number in range(30)]
    yield "what is never dialled does not count", [*port, (0, tcp(1), "", True)]
