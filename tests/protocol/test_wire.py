"""Requests and replies: one side reads what the other encodes, and other bytes are refused with a
reason.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import limits, wire
from protocol.identity import Identity
from protocol.messages import Hello, Reason, Rejected
from protocol.versions import CURRENT

tags = st.binary(min_size=8, max_size=8)
numbers = st.integers(0, limits.MAX_SEQUENCE)
requests = st.builds(
    wire.ExchangeRequest,
    tag=tags,
    limit=st.integers(0, limits.MAX_EXCHANGED),
    digest=st.dictionaries(tags, numbers, max_size=limits.MAX_DIGEST),
    announcement=st.binary(max_size=limits.MAX_ANNOUNCEMENT_BYTES),
)
items = st.builds(
    wire.CarriedAnnouncement,
    age=st.integers(0, limits.MAX_AGE_DECISECONDS),
    sealed=st.binary(max_size=200),
)
endpoints = st.lists(  # one of each family
    st.builds(wire.Endpoint, ip=st.ip_addresses(), port=st.integers(0, 65535)),
    max_size=2,
    unique_by=lambda endpoint: endpoint.ip.version,
)
hashes = st.binary(min_size=limits.HASH_BYTES, max_size=limits.HASH_BYTES)


@pytest.mark.slow
@given(requests)
def test_an_exchange_request_survives(request: wire.ExchangeRequest) -> None:
    assert wire.decode_exchange(wire.encode_exchange(request)) == request


@pytest.mark.slow
@given(st.lists(items, max_size=limits.MAX_EXCHANGED))
def test_its_reply_survives_and_is_never_a_refusal(sent: list[wire.CarriedAnnouncement]) -> None:
    data = wire.encode_items(sent)
    assert data and wire.decode_items(data) == sent


@given(tags, st.lists(hashes, min_size=1, max_size=limits.MAX_PULLED))
def test_a_pull_request_survives(tag: bytes, keys: list[bytes]) -> None:
    assert wire.decode_pull(wire.encode_pull(tag, keys)) == (tag, keys)


@given(st.lists(st.binary(max_size=500), min_size=1, max_size=limits.MAX_PULLED))
def test_its_reply_survives(envelopes: list[bytes]) -> None:
    assert wire.decode_groups(wire.encode_groups(envelopes), len(envelopes)) == envelopes


@pytest.mark.slow
@given(endpoints)
def test_a_punch_survives_and_is_never_a_refusal(sent: list[wire.Endpoint]) -> None:
    data = wire.encode_punch(sent)
    assert data and wire.decode_punch(data) == sent


def test_the_largest_requests_and_replies_fit(ann: Identity) -> None:
    digest = {bytes([number]) * 8: 1 for number in range(limits.MAX_DIGEST)}
    request = wire.ExchangeRequest(
        bytes(8), limits.MAX_EXCHANGED, digest, bytes(limits.MAX_ANNOUNCEMENT_BYTES)
    )
    assert len(wire.encode_exchange(request)) <= limits.MAX_EXCHANGE_REQUEST_BYTES
    fullest = [
        wire.CarriedAnnouncement(limits.MAX_AGE_DECISECONDS, bytes(limits.MAX_ANNOUNCEMENT_BYTES))
    ] * limits.MAX_EXCHANGED
    assert len(wire.encode_items(fullest)) <= limits.MAX_EXCHANGE_REPLY_BYTES
    assert (
        len(wire.encode_pull(bytes(8), [bytes(32)] * limits.MAX_PULLED))
        <= limits.MAX_PULL_REQUEST_BYTES
    )


def test_hello_names_the_swarm_and_the_versions() -> None:
    assert wire.decode_hello(wire.encode_hello("s" * limits.MAX_NAME_CHARS)) == Hello(
        swarm="s" * limits.MAX_NAME_CHARS, versions=(CURRENT.number,)
    )
    assert wire.decode_hello(b'{"swarm":"a","versions":[]}') == Rejected(Reason.MALFORMED)
    assert wire.decode_hello(b'{"swarm":"a\\u001b","versions":[1]}') == Rejected(Reason.MALFORMED)
    assert isinstance(wire.decode_hello(b'{"swarm":"a","versions":[2,3]}'), Hello)


def test_a_key_tag_tells_peers_apart(ann: Identity, bob: Identity) -> None:
    assert len({wire.key_tag(ann.peer_id), wire.key_tag(bob.peer_id)}) == 2
    assert wire.swarm_tag("a") != wire.swarm_tag("b")
    with pytest.raises(ValueError, match="peer id"):
        wire.key_tag("Qm" + "a" * 44)  # type: ignore[arg-type]
