"""The bytes printed in protocol/README.md are those that this code makes and reads."""

import re
from ipaddress import ip_address
from pathlib import Path

import pytest

import protocol
from protocol import announcing, codec, limits, wire
from protocol.addressing import question_seed
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity
from protocol.messages import Announcement, RolloutGroup, Round
from protocol.rejection import Reason
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
    return groups.group(identity.peer_id, 7, 2, ("3 + 4 = 7", TEXT), (True, False), seed=seed)


def test_the_peer_id_is_the_printed_one(identity: Identity) -> None:
    assert identity.peer_id == printed("peer_id")


def test_the_key_file_holds_the_printed_bytes(identity: Identity) -> None:
    assert identity.key_bytes().hex() == printed("key_file")


def test_the_question_seed_is_the_printed_one(identity: Identity) -> None:
    assert question_seed(identity.peer_id, Round(7)) == int(printed("question_seed"))


def test_the_envelope_has_the_printed_bytes(identity: Identity, group: RolloutGroup) -> None:
    assert codec.seal(group, identity, "golden").hex() == printed("envelope")


def test_the_content_hash_is_the_printed_one(group: RolloutGroup) -> None:
    assert codec.content_hash(codec.encode(group)).hex() == printed("content_hash")


def test_the_printed_envelope_is_admitted(group: RolloutGroup) -> None:
    receiver = AdmissionRules("golden", Identity.create().peer_id, knows=lambda question: True)
    assert admit(bytes.fromhex(printed("envelope")), receiver) == group


def test_the_author_stands_where_the_page_says(identity: Identity) -> None:
    assert bytes.fromhex(printed("envelope"))[75 : 126 + 1].decode() == identity.peer_id


def test_the_page_lists_every_limit_with_its_value() -> None:
    values = {name: value for name, value in vars(limits).items() if name.isupper() and name != "VERSION"}
    assert {
        name: int(value) for name, value in re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", README, re.MULTILINE)
    } == values


def test_the_page_lists_every_reason_in_order() -> None:
    assert re.findall(r"^\| `([a-z ]+)` \| (?!string|integer|object|array|name|boolean)", README, re.MULTILINE) == list(
        Reason
    )


@pytest.fixture(scope="module")
def announcement(identity: Identity) -> Announcement:
    return Announcement(
        addresses=("/ip4/203.0.113.7/tcp/31330", "/dns4/node.example/udp/31330/quic-v1"),
        author=identity.peer_id,
        groups=(announcing.to_text(bytes.fromhex(printed("content_hash"))),),
        held=(announcing.to_text(bytes(range(8))),),
        round=7,
        seq=300,
    )


def test_the_announcement_has_the_printed_bytes(identity: Identity, announcement: Announcement) -> None:
    assert announcing.seal(announcement, identity, "golden").hex() == printed("announcement")


def test_the_printed_announcement_is_genuine(announcement: Announcement) -> None:
    data = bytes.fromhex(printed("announcement"))
    assert announcing.peek(data) == announcement
    assert announcing.objection(data, announcement, "golden") is None


def test_the_tags_are_the_printed_ones(identity: Identity) -> None:
    assert wire.swarm_tag("golden").hex() == printed("swarm_tag")
    assert wire.key_tag(identity.peer_id).hex() == printed("key_tag")


def test_the_exchange_has_the_printed_bytes(identity: Identity) -> None:
    sealed = bytes.fromhex(printed("announcement"))
    request = wire.ExchangeRequest(wire.swarm_tag("golden"), 12, {wire.key_tag(identity.peer_id): 299}, b"")
    assert wire.encode_exchange(request).hex() == printed("exchange_request")
    assert wire.encode_items([wire.Item(15, sealed)]).hex() == printed("exchange_head") + sealed.hex()


def test_the_pull_has_the_printed_bytes() -> None:
    envelope, key = bytes.fromhex(printed("envelope")), bytes.fromhex(printed("content_hash"))
    assert wire.encode_pull(wire.swarm_tag("golden"), [key, bytes(32)]).hex() == printed("pull_request")
    assert wire.encode_groups([envelope, b""]).hex() == printed("pull_head") + envelope.hex() + "00000000"


def test_hello_has_the_printed_bytes() -> None:
    assert wire.encode_hello("golden").hex() == printed("hello")


def test_the_punch_has_the_printed_bytes() -> None:
    endpoints = [wire.Endpoint(ip_address("203.0.113.7"), 31330), wire.Endpoint(ip_address("2001:db8::1"), 9000)]
    assert wire.encode_punch(endpoints).hex() == printed("punch")
    assert wire.decode_punch(bytes.fromhex(printed("punch"))) == endpoints
