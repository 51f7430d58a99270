"""Announcements: one encoding, one author, never over the limit."""

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from protocol import codec, limits
from protocol.identity import Identity
from protocol.messages import Announcement
from protocol.rejection import Reason, Rejected
from protocol.versions import CURRENT

SWARM = "test"

hashes = st.binary(min_size=limits.HASH_BYTES, max_size=limits.HASH_BYTES).map(codec.to_text)
holdings = st.binary(min_size=limits.HOLDING_BYTES, max_size=limits.HOLDING_BYTES).map(codec.to_text)
addresses = st.from_regex(r"\A/ip4/[0-9.]{7,15}/tcp/[0-9]{1,5}\Z")


def announcements(author: str) -> st.SearchStrategy[Announcement]:
    return st.builds(
        Announcement,
        addresses=st.lists(addresses, max_size=limits.MAX_ADDRESSES).map(tuple),
        author=st.just(author),
        groups=st.lists(hashes, max_size=limits.MAX_ANNOUNCED_GROUPS).map(tuple),
        held=st.lists(holdings, max_size=limits.MAX_ANNOUNCED_HOLDINGS).map(tuple),
        round=st.integers(0, limits.MAX_ROUND),
        seq=st.integers(0, limits.MAX_SEQUENCE),
    )


def largest(author: Identity) -> Announcement:
    return Announcement(
        addresses=("/dns4/" + "a" * (limits.MAX_ADDRESS_CHARS - 6),) * limits.MAX_ADDRESSES,
        author=author.peer_id,
        groups=(codec.to_text(bytes(limits.HASH_BYTES)),) * limits.MAX_ANNOUNCED_GROUPS,
        held=(codec.to_text(bytes(limits.HOLDING_BYTES)),) * limits.MAX_ANNOUNCED_HOLDINGS,
        round=limits.MAX_ROUND,
        seq=limits.MAX_SEQUENCE,
    )


def opened(data: bytes, swarm: str = SWARM) -> Announcement | Reason:
    announcement = codec.peek(data, Announcement)
    if isinstance(announcement, Rejected):
        return announcement.reason
    return codec.objection(data, announcement, swarm) or announcement


@pytest.mark.slow
@given(st.data())
def test_what_was_sealed_opens_unchanged(ann: Identity, data: st.DataObject) -> None:
    announcement = data.draw(announcements(ann.peer_id))
    assert opened(codec.seal(announcement, ann, SWARM)) == announcement


def test_the_largest_announcement_fits(ann: Identity) -> None:
    sealed = codec.seal(largest(ann), ann, SWARM)
    assert len(sealed) <= limits.MAX_ANNOUNCEMENT_BYTES
    assert opened(sealed) == largest(ann)


def test_any_changed_byte_is_refused(ann: Identity) -> None:
    sealed = codec.seal(largest(ann), ann, SWARM)
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        assert isinstance(opened(bytes(changed)), Reason), position


def test_cut_anywhere_or_longer_it_is_refused(ann: Identity) -> None:
    sealed = codec.seal(largest(ann), ann, SWARM)
    for length in range(len(sealed)):
        assert opened(sealed[:length]) is Reason.MALFORMED
    assert isinstance(opened(sealed + b" "), Reason)
    assert opened(sealed + bytes(limits.MAX_ANNOUNCEMENT_BYTES)) is Reason.TOO_BIG


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_and_nothing_raises(data: bytes) -> None:
    assert isinstance(opened(data), Reason)


def test_it_counts_in_its_swarm_and_for_its_author_only(ann: Identity, bob: Identity) -> None:
    own = largest(ann)
    assert opened(codec.seal(own, ann, SWARM), "another") is Reason.BAD_SIGNATURE
    assert opened(codec.seal(own, bob, SWARM)) is Reason.BAD_SIGNATURE
    nobody = own.model_copy(update={"author": "x" * limits.PEER_ID_CHARS})
    assert opened(codec.seal(nobody, ann, SWARM)) is Reason.BAD_AUTHOR


def test_a_signature_for_a_rollout_group_is_none_for_an_announcement(ann: Identity) -> None:
    payload = codec.encode(largest(ann))
    assert opened(ann.sign(CURRENT.domain("rollout-group", SWARM), payload) + payload) is Reason.BAD_SIGNATURE


@pytest.mark.parametrize(
    "changes",
    [
        {"addresses": ("/ip4/1.2.3.4/tcp/1",) * (limits.MAX_ADDRESSES + 1)},
        {"addresses": ("/ip4/" + "1" * limits.MAX_ADDRESS_CHARS,)},
        {"addresses": ("/unix/tmp/socket",)},
        {"addresses": ("/ip4/1.2.3.4/tcp/1 ",)},
        {"addresses": ("/ip4/1.2.3.4/tcp/1\n",)},
        {"addresses": ("/ip4/\x1b[2J/tcp/1",)},
        {"groups": (codec.to_text(bytes(32)),) * (limits.MAX_ANNOUNCED_GROUPS + 1)},
        {"groups": (codec.to_text(bytes(31)),)},
        {"groups": ("A" * 42 + "B",)},  # a second spelling of the same 32 bytes
        {"groups": ("A" * 42 + "=",)},
        {"held": (codec.to_text(bytes(8)),) * (limits.MAX_ANNOUNCED_HOLDINGS + 1)},
        {"held": ("A" * 12,)},
        {"seq": -1},
        {"seq": limits.MAX_SEQUENCE + 1},
        {"round": True},
        {"author": "1" * (limits.MAX_NAME_CHARS + 1)},
        {"reward": 1},
    ],
)
def test_what_is_over_a_limit_is_no_announcement(ann: Identity, changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Announcement.model_validate({**largest(ann).model_dump(), **changes})


@given(st.binary(max_size=40))
def test_hashes_have_one_spelling(value: bytes) -> None:
    assert codec.to_bytes(codec.to_text(value)) == value


def test_nothing_is_kept_of_what_was_parsed() -> None:
    author = Identity.create()

    def parse_new(first: int) -> None:
        for seq in range(first, first + 200):
            digests = [hashlib.sha256(b"%d %d" % (seq, index)).digest() for index in range(16)]
            news = {
                "groups": tuple(map(codec.to_text, digests)),
                "held": tuple(codec.to_text(digest[:8]) for digest in digests),
                "seq": seq,
            }
            data = bytes(limits.SIGNATURE_BYTES) + codec.encode(largest(author).model_copy(update=news))
            assert isinstance(codec.peek(data, Announcement), Announcement)

    parse_new(0)  # what a first time needs
    tracemalloc.start()
    try:
        parse_new(200)
        assert tracemalloc.get_traced_memory()[0] < 100_000  # texts of 6,400 hashes and hints are 500 KB
    finally:
        tracemalloc.stop()
