"""Numbers as protobuf and multiformats write them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.network import varint


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**64 - 1, "ff" * 9 + "01")],
)
def test_known_numbers(number: int, data: str) -> None:
    assert varint.encode(number).hex() == data


def read(data: bytes, longest: int = 2**64) -> bytes:
    async def all_of_it() -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await varint.read_prefixed(reader.readexactly, longest)

    return asyncio.run(all_of_it())


@given(st.integers(0, 2**64 - 1), st.binary(max_size=4))
def test_what_is_written_is_read(number: int, more: bytes) -> None:
    data = varint.encode(number) + more
    assert varint.decode(data) == (number, more) and varint.decode(memoryview(data)) == (
        number,
        more,
    )


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9])
def test_cut_off(data: bytes) -> None:
    with pytest.raises(ValueError, match="cut off"):
        varint.decode(data)
    with pytest.raises(EOFError):
        read(data)


def test_too_long() -> None:
    for function, error in ((varint.decode, ValueError), (read, OSError)):
        with pytest.raises(error):
            function(b"\x80" * 10 + b"\x01")
    assert varint.decode(b"\x80" * 4 + b"\x01", longest=5)[0] == 2**28
    with pytest.raises(ValueError, match="too long"):
        varint.decode(b"\x80" * 5 + b"\x01", longest=5)


def test_a_length_goes_in_front() -> None:
    assert varint.prefixed(b"abc") == b"\x03abc" and varint.prefixed(
        bytes(200)
    ) == b"\xc8\x01" + bytes(200)
    assert read(varint.prefixed(bytes(200)) + b"more", longest=200) == bytes(200)
    with pytest.raises(OSError, match="200 bytes"):
        read(varint.prefixed(bytes(200)), longest=199)
