"""The reply of a relay is bytes from a peer, too."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.identity import Identity
from swarm_node.network.transport.relays import UNLIMITED, may_relay, reserve

PEER = Identity.from_seed_bytes(b"a" * 32).peer_id


class Scripted:
    """A stream that says what it was told to say, and keeps what it receives."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.received = b""

    async def read(self, size: int) -> bytes:
        if len(self.answer) < size:
            raise EOFError
        taken, self.answer = self.answer[:size], self.answer[size:]
        return taken

    async def write(self, data: bytes) -> None:
        self.received += data

    async def close(self) -> None: ...


def limit(answer: bytes) -> int:
    return asyncio.run(reserve(Scripted(bytes([len(answer)]) + answer)))


def test_the_request_is_the_one_of_the_specification() -> None:
    stream = Scripted(b"\x00")
    assert asyncio.run(reserve(stream)) == 0 and stream.received == b"\x02\x08\x00"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("0802 2864", UNLIMITED),  # STATUS, 100 = OK
        ("0802 1a06 0880e0cfc906 2864", UNLIMITED),  # with a reservation inside
        ("0802 2206 0878 10808008 2864", 131072),  # with a limit: 120 s and 128 KiB
        ("0802 28c801", 0),  # 200: reservation refused
        ("0800 2864", 0),  # not a STATUS
        ("2864", 0),
        ("", 0),
        ("0802 22ff 2864", 0),  # a length that leads beyond the end
        ("0d00000000", 0),  # a wire type that the message does not have
    ],
)
def test_answers(answer: str, expected: int) -> None:
    assert limit(bytes.fromhex(answer)) == expected


def test_an_answer_over_4_kib_is_not_read() -> None:
    with pytest.raises(OSError, match="a message of"):
        asyncio.run(reserve(Scripted(b"\xff\xff\xff\x7f" + bytes(10))))


@given(st.binary(max_size=64))
def test_bytes_of_a_peer_are_a_number_or_the_end_of_the_stream(answer: bytes) -> None:
    with suppress(EOFError, OSError):
        assert asyncio.run(reserve(Scripted(answer))) >= 0


def test_relays_on_the_same_network_are_of_no_use() -> None:
    assert may_relay(f"/ip4/45.33.10.2/tcp/1/p2p/{PEER}") and may_relay(
        f"/dns4/relay.example.org/tcp/1/p2p/{PEER}"
    )
    assert not may_relay(f"/ip4/127.0.0.1/tcp/1/p2p/{PEER}") and not may_relay(
        f"/ip4/192.168.1.7/tcp/1/p2p/{PEER}"
    )
