"""The bytes printed in protocol/README.md are those that this code makes and reads."""

import re
from pathlib import Path

import pytest

import protocol
from protocol import codec, limits, wire
from protocol.addressing import question_seed
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity
from protocol.messages import Announcement, Reason, RolloutGroup, Round
from tests import groups

README = (Path(protocol.__file__).parent / "README.md").read_text(encoding="utf-8")
TEXT = 'na\xefve "\\/" \U0001f41d\n\t\0\x7f\u2028\u0301\xe9'


def printed(name: str) -> str:
    block = re.search(r"```golden\n(.*?)```", README, re.DOTALL)
    assert block
    value = re.search(rf"^{name}\s+(.*?)(?=^\w|\Z)", block[1], re.DOTALL | re.MULTILINE)
    assert value, f"README has no golden {name}"
    return "".join(value[1].split())


@pytest.fixture(scope="module")
def identity() -> Identity:
    return Identity.from_seed_bytes(bytes.fromhex(printed("seed")))


@pytest.fixture(scope="module")
def group(identity: Identity) -> RolloutGroup:
    seed = int(printed("question_seed"))
    return groups.group(
        identity.peer_id, 7, 2, ("3 + 4 = 7", TEXT), (True, False), seed=seed, digest="CAkKCwwNDg8"
    )


@pytest.fixture(scope="module")
def announcement(identity: Identity) -> Announcement:
    return Announcement(
        addresses=("/ip4/203.0.113.7/tcp/31330", "/dns4/node.example/udp/31330/quic-v1"),
        author=identity.peer_id,
        groups=(codec.to_text(bytes.fromhex(printed("content_hash"))),),
        held=(codec.to_text(bytes(range(8))),),
        round=7,
        seq=300,
    )


@pytest.fixture(scope="module")
def made(identity: Identity, group: RolloutGroup, announcement: Announcement) -> dict[str, str]:
    """What this code makes of the printed seed, by the name on the page."""
    found: dict[str, str | bytes] = {
        "peer_id": identity.peer_id,
        "key_file": identity.key_bytes(),
        "digest": codec.environment_digest([["naïve?", "0.000000", "0.050000"], [], [], []], "s"),
        "question_seed": str(question_seed("golden", identity.peer_id, Round(7))),
        "envelope": codec.seal(group, identity, "golden"),
        "content_hash": codec.content_hash(codec.encode(group)),
        "announcement": codec.seal(announcement, identity, "golden"),
        "swarm_tag": wire.swarm_tag("golden"),
        "key_tag": wire.key_tag(identity.peer_id),
    }
    return {name: each if isinstance(each, str) else each.hex() for name, each in found.items()}


def test_what_is_made_has_the_printed_bytes(made: dict[str, str]) -> None:
    assert made == {name: printed(name) for name in made}


def test_the_printed_envelope_is_admitted(group: RolloutGroup) -> None:
    receiver = AdmissionRules("golden", Identity.create().peer_id, knows=lambda question: True)
    assert admit(bytes.fromhex(printed("envelope")), receiver) == group


def test_the_page_lists_every_limit_with_its_value() -> None:
    values = {name: value for name, value in vars(limits).items() if name.isupper()}
    block = README.partition("```limits\n")[2].partition("```")[0]
    assert {
        name: int(value) for name, value in re.findall(r"^([A-Z_]+) +(\d+)", block, re.MULTILINE)
    } == values


def test_the_page_lists_every_reason_in_order() -> None:
    block = README.partition("```reasons\n")[2].partition("```")[0]
    assert re.findall(r"^([a-z ]+?)  ", block, re.MULTILINE) == list(Reason)


def test_the_printed_announcement_is_genuine(announcement: Announcement) -> None:
    data = bytes.fromhex(printed("announcement"))
    assert (
        codec.peek(data, Announcement) == announcement
        and codec.objection(data, announcement, "golden") is None
    )
