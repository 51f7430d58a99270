"""The little protobuf that messages of libp2p need: fields by number, and a length in front."""

from contextlib import suppress

from swarm_node.network import varint
from swarm_node.network.transport.streams import Stream


async def read_message(stream: Stream, longest: int) -> dict[int, int | bytes]:
    """The fields of the next message on the stream; none if it has more than `longest` bytes. EOFError or OSError."""
    try:
        size = await varint.read(stream.read)
    except ValueError:
        return {}
    return fields(await stream.read(size)) if size <= longest else {}


def fields(data: bytes) -> dict[int, int | bytes]:
    """Fields of a protobuf message by number, integers and byte strings; what was read so far if it makes no sense."""
    found: dict[int, int | bytes] = {}
    rest = data
    with suppress(ValueError):
        while rest:
            key, rest = varint.decode(rest)
            value, rest = varint.decode(rest)  # wire type 0: the value, 2: the length of what follows
            if key & 7 == 0:
                found[key >> 3] = value
            elif key & 7 == 2:
                found[key >> 3], rest = rest[:value], rest[value:]
            else:
                break
    return found
