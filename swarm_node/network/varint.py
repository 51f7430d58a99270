"""Unsigned LEB128, as protobuf and multiformats write lengths and codes: seven bits a byte, the lowest first."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

MAX_BYTES = 10  # for 64 bits

Data = TypeVar("Data", bytes, memoryview)


def encode(number: int) -> bytes:
    """`number` must not be negative."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def prefixed(data: bytes) -> bytes:
    """With its length in front."""
    return encode(len(data)) + data


def decode(data: Data, longest: int = MAX_BYTES) -> tuple[int, Data]:
    """The number that `data` begins with, and what follows. ValueError where it is cut off, or longer than `longest`
    bytes."""
    number = 0
    for position, byte in enumerate(data[:longest]):
        number |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return number, data[position + 1 :]
    raise ValueError("number is cut off or too long")


async def read(exactly: Callable[[int], Awaitable[bytes]]) -> int:
    """The number that a stream begins with; `exactly` reads so many bytes of it, and its errors are passed on.
    ValueError where it is too long."""
    data = await exactly(1)
    while data[-1] >= 0x80 and len(data) < MAX_BYTES:
        data += await exactly(1)
    return decode(data)[0]
