"""The code of an invitation: what is admitted comes back as it was, and all else costs one line."""

import base64
import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.identity import Identity, public_key
from swarm_node.common.errors import UserError
from swarm_node.network.transport.multiaddr import to_bytes
from swarm_node.swarm.code import MAX_CHARS, PREFIX, Invitation, RequiredEnvironment, decode, encode

PEER, OTHER = (Identity.from_seed_bytes(bytes([k]) * 32).peer_id for k in (1, 2))
HOME = Invitation(
    (f"/ip4/192.168.1.20/tcp/31330/p2p/{PEER}", f"/ip6/2001:db8::1/udp/1/quic-v1/p2p/{PEER}"),
    "friends",
    (RequiredEnvironment("dataset", "2c9f", ("dataset/train",), "tickets.csv"),),
    2,
)
DOOR = (public_key(PEER), to_bytes("/ip4/192.168.1.20/tcp/31330"))


def sealed(body: bytes, kind: int = 1) -> str:
    data = bytes([kind]) + body
    return PREFIX + base64.urlsafe_b64encode(
        data + hashlib.sha256(data).digest()[:4]
    ).decode().rstrip("=")


def body(doors=(DOOR,), swarm="public", asked=(), at_once=0) -> bytes:
    return msgspec.msgpack.encode([doors, swarm, asked, at_once])


def refused(text: str) -> str:
    with pytest.raises(UserError) as error:
        decode(text)
    assert "\n" not in str(error.value) and len(str(error.value)) < 120
    return str(error.value)


names = st.text("abcXYZ019._+-", min_size=1, max_size=64)
addresses = st.builds(
    "/ip4/{}/{}/p2p/{}".format,
    st.ip_addresses(v=4).filter(lambda ip: not ip.is_multicast),
    st.integers(0, 65535).flatmap(
        lambda port: st.sampled_from((f"tcp/{port}", f"udp/{port}/quic-v1"))
    ),
    st.sampled_from((PEER, OTHER)),
)
tasks = st.lists(st.builds("{}/{}".format, names, names), min_size=1, max_size=3).map(tuple)
invitations = st.builds(
    Invitation,
    st.lists(addresses, min_size=1, max_size=3).map(tuple),
    names,
    st.lists(
        st.builds(RequiredEnvironment, names, names, tasks, st.just("a b.csv")), max_size=3
    ).map(tuple),
    st.integers(0, 1024),
)


with_cards = st.builds(
    lambda doors, network, number, digest: Invitation(doors, "a.b", (), 0, network, number, digest),
    st.lists(addresses, min_size=1, max_size=3).map(tuple),
    st.text("abcxyz234567", min_size=26, max_size=26),
    st.integers(1, 1024),
    st.binary(min_size=32, max_size=32),
)


@given(st.one_of(invitations, with_cards))
def test_what_is_encoded_is_decoded(invitation: Invitation) -> None:
    code = encode(invitation)
    assert (
        decode(code)
        == decode(code.removeprefix(PREFIX))
        == decode(f" {code[:40]}\n{code[40:]} ")
        == invitation
    )
    assert len(code) <= MAX_CHARS


@given(
    st.one_of(
        st.text(max_size=300),
        st.binary(max_size=300).map(sealed),
        st.integers(0, 10_000).map("A".__mul__),
    )
)
def test_what_is_no_code_costs_one_line(text: str) -> None:
    refused(text)


@given(st.data())
def test_a_code_with_changed_bytes_is_refused_or_is_the_only_spelling_of_what_it_says(
    data: st.DataObject,
) -> None:
    whole = bytearray(body(asked=[["basics", "1", ["next/few"], ""]]))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(sealed(bytes(whole)))
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert encode(found) == sealed(bytes(whole))


@pytest.mark.parametrize(
    "wrong",
    [
        body(swarm="a b"),
        body(swarm="friends\n"),
        body(swarm="x" * 65),
        body(doors=[]),
        body(doors=[DOOR] * 4),
        body(doors=[(b"", DOOR[1])]),
        body(doors=[(bytes(32), DOOR[1])]),  # a key that anybody can sign for
        body(doors=[(DOOR[0], to_bytes("/ip4/192.168.1.20"))]),
        body(doors=[(DOOR[0], DOOR[1][:-1])]),
        body(doors=[(DOOR[0], b"\x04\xe0\x00\x00\x01\x06\x7a\x62")]),  # 224.0.0.1, a group
        body(asked=[["basics", "1", ["--home"], ""]]),
        body(asked=[["basics", "1", ["next/few\n"], ""]]),
        body(asked=[["basics", "1", [], ""]]),
        body(asked=[["basics", "1", ["next/few"], "\x1b[31m"]]),
        body(asked=[["basics", "1", ["next/few"]]]),  # the file left out: another spelling
        body(at_once=-1),
        body(at_once=1e9),
        body() + b"\xc0",
        msgspec.msgpack.encode({"swarm": "public"}),
        b"\x91" * 5000,
    ],
)
def test_no_field_is_wider_than_its_option(wrong: bytes) -> None:
    refused(sealed(wrong))


@pytest.mark.parametrize(
    "said",
    [
        ("a" * 25, 1, bytes(32)),
        ("A" * 26, 1, bytes(32)),
        ("a" * 26, 0, bytes(32)),
        ("a" * 26, 1, bytes(31)),
    ],
)
def test_no_field_of_a_code_with_a_card_is_wider(said: tuple[object, ...]) -> None:
    refused(sealed(msgspec.msgpack.encode([[DOOR], "a.b", (), 0, *said]), kind=2))


def test_a_typing_mistake_a_newer_kind_and_anything_else_are_told_apart() -> None:
    code = encode(HOME)
    swapped = code[:60] + ("A" if code[60] != "A" else "B") + code[61:]
    assert "copy the whole code" in refused(swapped) and "copy the whole code" in refused(code[:-4])
    assert "upgrade" in refused(sealed(body(), kind=4)) and "upgrade" in refused(PREFIX + "BA")
    for other in ("", "swarm:", "hello", HOME.addresses[0], "--peers", "é" * 20):
        assert "`swarm-node invite`" in refused(other)
