"""Announcements: one encoding, one author, never over the limit."""

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import codec, limits
from protocol.identity import Identity
from protocol.messages import Announcement, Reason, Rejected

SWARM = "test"

hashes = st.binary(min_size=limits.HASH_BYTES, max_size=limits.HASH_BYTES).map(codec.to_text)
holdings = st.binary(min_size=limits.HOLDING_BYTES, max_size=limits.HOLDING_BYTES).map(
    codec.to_text
)
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
    assert len(sealed) <= limits.MAX_ANNOUNCEMENT_BYTES and opened(sealed) == largest(ann)


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
            data = bytes(limits.SIGNATURE_BYTES) + codec.encode(
                largest(author).model_copy(update=news)
            )
            assert isinstance(codec.peek(data, Announcement), Announcement)

    parse_new(0)  # memory that only a first call needs
    tracemalloc.start()
    try:
        parse_new(200)
        # Texts of 6,400 hashes and hints are 500 KB
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
