"""The parts of protobuf that messages of libp2p need: unsigned LEB128 numbers, fields by number, a
length in front.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

MAX_BYTES = 10  # for 64 bits

Data = TypeVar("Data", bytes, memoryview)


def encode(number: int) -> bytes:
    """`number` as unsigned LEB128. It must not be negative."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def prefixed(data: bytes) -> bytes:
    """The data with its length in front."""
    return encode(len(data)) + data


def decode(data: Data, longest: int = MAX_BYTES) -> tuple[int, Data]:
    """The number that `data` begins with, and the rest. ValueError where the number is cut off, or
    longer than `longest` bytes.
    """
    number = 0
    for position, byte in enumerate(data[:longest]):
        number |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return number, data[position + 1 :]
    raise ValueError("number is cut off or too long")


async def read_prefixed(exactly: Callable[[int], Awaitable[bytes]], longest: int) -> bytes:
    """A message of a stream, without the length in front; `exactly` reads so many bytes of the
    stream, and its errors are passed on. OSError where the message is longer than `longest` bytes,
    or its length is no number.
    """
    data = await exactly(1)
    while data[-1] >= 0x80 and len(data) < MAX_BYTES:
        data += await exactly(1)
    try:
        size = decode(data)[0]
    except ValueError as error:
        raise OSError("a length that is none") from error
    if size > longest:
        raise OSError(f"a message of {size} bytes")
    return await exactly(size)


def fields(data: bytes) -> dict[int, int | bytes]:
    """Fields of a protobuf message by number, integers and byte strings; those before the part that
    makes no sense.
    """
    found: dict[int, int | bytes] = {}
    rest = data
    with suppress(ValueError):
        while rest:
            key, rest = decode(rest)
            value, rest = decode(rest)  # wire type 0: the value, 2: the length of what follows
            if key & 7 == 0:
                found[key >> 3] = value
            elif key & 7 == 2:
                found[key >> 3], rest = rest[:value], rest[value:]
            else:
                break
    return found
