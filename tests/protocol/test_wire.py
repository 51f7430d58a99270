"""Requests and replies: one side reads what the other encodes, and other bytes are refused with a reason."""

from collections.abc import Callable
from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol import limits, wire
from protocol.identity import Identity
from protocol.messages import Hello
from protocol.rejection import Reason, Rejected
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
items = st.builds(wire.Item, age=st.integers(0, limits.MAX_AGE_DECISECONDS), sealed=st.binary(max_size=200))
endpoints = st.lists(  # one of each family
    st.builds(wire.Endpoint, ip=st.ip_addresses(), port=st.integers(0, 65535)),
    max_size=limits.MAX_PUNCH_ENDPOINTS,
    unique_by=lambda endpoint: endpoint.ip.version,
)
hashes = st.binary(min_size=limits.HASH_BYTES, max_size=limits.HASH_BYTES)


@pytest.mark.slow
@given(requests)
def test_an_exchange_request_survives(request: wire.ExchangeRequest) -> None:
    assert wire.decode_exchange(wire.encode_exchange(request)) == request


@pytest.mark.slow
@given(st.lists(items, max_size=limits.MAX_EXCHANGED))
def test_its_reply_survives_and_is_never_a_refusal(sent: list[wire.Item]) -> None:
    data = wire.encode_items(sent)
    assert data
    assert wire.decode_items(data) == sent


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
    assert data
    assert wire.decode_punch(data) == sent


@given(endpoints, st.integers(0, limits.MAX_PUNCH_BYTES))
def test_a_punch_that_is_cut_off_or_goes_on_is_malformed(sent: list[wire.Endpoint], end: int) -> None:
    data = wire.encode_punch(sent)
    for wrong in (data[:end], data + bytes(1)):
        assert wrong == data or wire.decode_punch(wrong) in (Rejected(Reason.MALFORMED), Rejected(Reason.TOO_BIG))


def test_a_punch_aims_at_one_port_of_each_family() -> None:
    twice = wire.Endpoint(ip_address("203.0.113.7"), 1024), wire.Endpoint(ip_address("203.0.113.7"), 1025)
    assert wire.decode_punch(wire.encode_punch(twice)) == Rejected(Reason.MALFORMED)


@given(st.binary(max_size=limits.MAX_PUNCH_BYTES))
def test_other_bytes_are_a_punch_or_a_reason(data: bytes) -> None:
    found = wire.decode_punch(data)
    assert isinstance(found, Rejected) or wire.encode_punch(found) == data


@pytest.mark.parametrize(
    ("decode", "longest"),
    [
        (wire.decode_exchange, limits.MAX_EXCHANGE_REQUEST_BYTES),
        (wire.decode_items, limits.MAX_EXCHANGE_REPLY_BYTES),
        (wire.decode_pull, limits.MAX_PULL_REQUEST_BYTES),
        (lambda data: wire.decode_groups(data, 1), limits.MAX_PULL_REPLY_BYTES),
        (wire.decode_hello, limits.MAX_HELLO_BYTES),
        (wire.decode_punch, limits.MAX_PUNCH_BYTES),
    ],
)
def test_what_is_too_long_is_refused_unread(decode: Callable[[bytes], object], longest: int) -> None:
    assert decode(bytes(longest + 1)) in (Rejected(Reason.TOO_BIG), Rejected(Reason.MALFORMED))


@given(st.binary(max_size=400))
@example(b"")
@example(b"\xff" * 400)
@example(b"\x01\x00\x00\xff\xff")
@example(b"\xff\xff\xff\xff")
def test_any_bytes_are_read_or_refused_and_nothing_raises(data: bytes) -> None:
    wire.decode_exchange(data)
    wire.decode_items(data)
    wire.decode_pull(data)
    wire.decode_hello(data)
    for count in (1, limits.MAX_PULLED):
        wire.decode_groups(data, count)


@pytest.mark.slow
@given(requests, st.data())
def test_a_request_cut_in_its_digest_is_malformed(request: wire.ExchangeRequest, data: st.DataObject) -> None:
    fixed = 10 + 12 * len(request.digest)
    cut = data.draw(st.integers(0, fixed - 1))
    assert wire.decode_exchange(wire.encode_exchange(request)[:cut]) == Rejected(Reason.MALFORMED)


def test_lists_over_their_limit_are_malformed() -> None:
    malformed = Rejected(Reason.MALFORMED)
    tag = bytes(8)
    assert wire.decode_exchange(tag + bytes([limits.MAX_EXCHANGED + 1, 0])) == malformed
    assert wire.decode_exchange(tag + bytes([0, limits.MAX_DIGEST + 1]) + bytes(12 * 129)) == malformed
    assert wire.decode_exchange(tag + bytes([0, 0]) + bytes(limits.MAX_ANNOUNCEMENT_BYTES + 1)) == malformed
    assert wire.decode_items(bytes([limits.MAX_EXCHANGED + 1]) + bytes(4 * 25)) == malformed
    assert wire.decode_items(b"\x01\x00\x00\x08\x01" + bytes(2049)) == malformed
    assert wire.decode_items(wire.encode_items([]) + b"\0") == malformed
    assert wire.decode_pull(tag) == malformed
    assert wire.decode_pull(tag + bytes(33)) == malformed
    assert wire.decode_pull(tag + bytes(32 * (limits.MAX_PULLED + 1))) == malformed
    assert wire.decode_groups((2**32 - 1).to_bytes(4, "big"), 1) == malformed
    assert wire.decode_groups((limits.MAX_MESSAGE_BYTES + 1).to_bytes(4, "big") + bytes(70_000), 1) == malformed
    assert wire.decode_groups(bytes(8), 1) == malformed


def test_the_largest_requests_and_replies_fit(ann: Identity) -> None:
    digest = {bytes([number]) * 8: 1 for number in range(limits.MAX_DIGEST)}
    request = wire.ExchangeRequest(bytes(8), limits.MAX_EXCHANGED, digest, bytes(limits.MAX_ANNOUNCEMENT_BYTES))
    assert len(wire.encode_exchange(request)) <= limits.MAX_EXCHANGE_REQUEST_BYTES
    fullest = [wire.Item(limits.MAX_AGE_DECISECONDS, bytes(limits.MAX_ANNOUNCEMENT_BYTES))] * limits.MAX_EXCHANGED
    assert len(wire.encode_items(fullest)) <= limits.MAX_EXCHANGE_REPLY_BYTES
    assert len(wire.encode_pull(bytes(8), [bytes(32)] * limits.MAX_PULLED)) <= limits.MAX_PULL_REQUEST_BYTES


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
