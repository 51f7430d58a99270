"""Messages between two processes of ours, of which one has started the other.

A frame is four bytes of length, big-endian, and one message in MessagePack. A value of a pydantic
type travels as JSON. The parent's first frame is a digest of the types of all messages, so that two
versions do not misread each other. The stream ends when the other process ends, for whatever cause.
Nothing is pickled: a reader bounds each frame by its length, and then decodes it into types.
"""

import asyncio
import hashlib
import json
import os
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from operator import methodcaller
from queue import SimpleQueue
from typing import IO, Any, Generic, TypeVar

import msgspec

from swarm_node.common.errors import UserError, exit_code, printable
from swarm_node.common.frames import BrokenFrame as BrokenFrame

LENGTH_BYTES = 4
CHUNK_BYTES = 1024 * 1024  # read at once: a frame that is announced and never comes costs no memory
MIXED = "two versions of swarm-node are mixed: install one everywhere, and start again"

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")
Down = TypeVar("Down")  # messages of a parent
Up = TypeVar("Up")  # messages of its child
End = IO[bytes] | socket.socket
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PipeMessage(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Base of every message."""


class Failed(PipeMessage, frozen=True):
    """The last message of a child that cannot continue."""

    error: str  # one line
    by_user: bool  # whether it is a mistake of the user
    passing: bool = False  # whether its cause may pass by itself


class Frames(Generic[T]):
    """The frames of one direction."""

    def __init__(self, types: Any, most: int, hello: bytes = b"") -> None:
        """`types`: a message, or a union of them. `most`: bytes of a frame. `hello`: the frame
        before the others.
        """
        self.hello, self._most = hello, most
        self._encoder = msgspec.msgpack.Encoder(enc_hook=methodcaller("model_dump_json"))
        self._decoder = msgspec.msgpack.Decoder(
            types, dec_hook=lambda kind, text: kind.model_validate_json(text)
        )

    def encode(self, message: T) -> bytes:
        """The frame of a message. Raises ValueError where a text is not Unicode, or the frame too
        long.
        """
        body = self._encoder.encode(message)
        if len(body) > self._most:
            raise ValueError(f"a message of {len(body)} bytes, and {self._most} are allowed")
        return len(body).to_bytes(LENGTH_BYTES, "big") + body

    def size(self, head: bytes) -> int:
        """The bytes of a frame that begins with this head, the head not counted. Raises BrokenFrame
        if too many.
        """
        size = int.from_bytes(head, "big")
        if size > self._most:
            raise BrokenFrame(f"frame of {size} bytes")
        return size

    def decode(self, body: bytes) -> T:
        """The message in the body of a frame. Raises BrokenFrame."""
        try:
            message: T = self._decoder.decode(body)
        except (ValueError, RecursionError) as error:
            # What msgspec and pydantic raise are ValueErrors
            raise BrokenFrame(f"not a frame: {printable(str(error))}") from error
        return message


class Talk(Generic[Down, Up]):
    """What a parent and one kind of child may say to each other: a union of messages for each
    direction.
    """

    def __init__(self, down: Any, up: Any, most: int) -> None:
        """`down` is for the child, `up` for the parent. `most`: bytes of a frame."""
        self._types, self._most = (down, up), most
        self.up: Frames[Up] = Frames(up, most)

    @cached_property
    def down(self) -> Frames[Down]:
        schemas = [
            msgspec.json.schema(each, schema_hook=methodcaller("model_json_schema"))
            for each in self._types
        ]
        digest = hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).digest()
        hello = len(digest).to_bytes(LENGTH_BYTES, "big") + digest
        return Frames(self._types[0], self._most, hello)


class Channel(Generic[In, Out]):
    """One end of a stream, over a socket or two pipes. One thread may send while another
    receives.
    """

    def __init__(
        self, reading: End, writing: End, incoming: Frames[In], outgoing: Frames[Out]
    ) -> None:
        """A parent's `incoming` is `Talk.up`, and its `outgoing` is `Talk.down`; a child's the
        other way round.
        """
        self._reading, self._writing = reading, writing
        self._incoming, self._outgoing = incoming, outgoing
        self._hello, self._greeted = outgoing.hello, not incoming.hello

    def send(self, message: Out) -> None:
        """Waits until the other end has room. Raises OSError where that end is gone, ValueError as
        for `Frames.encode`.
        """
        data = memoryview(self._hello + self._outgoing.encode(message))
        self._hello = b""
        while data:
            data = data[os.write(self._writing.fileno(), data) :]

    def receive(self) -> In | None:
        """Waits for the next message. Returns None if the other end has gone. Raises BrokenFrame;
        in a child also UserError, where its parent is of another version.
        """
        try:
            if not self._greeted and self._frame() != self._incoming.hello[LENGTH_BYTES:]:
                raise UserError(MIXED)
            self._greeted = True
            return self._incoming.decode(self._frame())
        except (EOFError, OSError):
            return None

    def _frame(self) -> bytes:
        return self._exactly(self._incoming.size(self._exactly(LENGTH_BYTES)))

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = os.read(self._reading.fileno(), min(CHUNK_BYTES, count - len(data)))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)


class AsyncChannel(Generic[In, Out]):
    """One end of a stream, on an asyncio loop. Sending never waits: if the other end is slow, old
    messages are lost.
    """

    def __init__(
        self, streams: Streams, incoming: Frames[In], outgoing: Frames[Out], waiting: int
    ) -> None:
        """`streams` as asyncio.open_connection gives them. `waiting`: messages that may wait to be
        sent.
        """
        self.dropped = 0  # messages that were too old, too long or no Unicode
        self._reader, self._writer = streams
        self._incoming, self._outgoing = incoming, outgoing
        self._frames: deque[bytes] = deque()
        self._waiting, self._filled = waiting, asyncio.Event()
        self._greeted = not incoming.hello

    def send(self, message: Out) -> None:
        """Adds the message to those that wait; `pump` writes them."""
        try:
            frame = self._outgoing.encode(message)
        except ValueError:
            self.dropped += 1
            return
        if len(self._frames) >= self._waiting:
            self._frames.popleft()
            self.dropped += 1
        self._frames.append(frame)
        self._filled.set()

    async def receive(self) -> In | None:
        """Waits for the next message, as `Channel.receive` does."""
        try:
            if not self._greeted and await self._frame() != self._incoming.hello[LENGTH_BYTES:]:
                raise UserError(MIXED)
            self._greeted = True
            return self._incoming.decode(await self._frame())
        except (EOFError, OSError):
            return None

    async def _frame(self) -> bytes:
        return await self._reader.readexactly(
            self._incoming.size(await self._reader.readexactly(LENGTH_BYTES))
        )

    async def pump(self) -> None:
        """Writes for as long as the other end reads; returns when it is gone."""
        try:
            self._writer.write(self._outgoing.hello)
            while True:
                await self._filled.wait()
                while self._frames:
                    self._writer.write(self._frames.popleft())
                    await self._writer.drain()
                self._filled.clear()
        except OSError:
            return

    def close(self, last: Out | None = None) -> None:
        """Closes this end, after a last message."""
        with suppress(OSError):
            if last is not None:
                self._writer.write(self._outgoing.encode(last))
            self._writer.close()


def inherited() -> socket.socket:
    """The socket to the parent, in a child of children.start. Processes that the child starts do
    not inherit it: while they held it open, the parent would not see the child's death.
    """
    connection = socket.socket(fileno=int(sys.argv[-1]))
    connection.set_inheritable(False)
    return connection


def orders_from(channel: Channel[In, Out]) -> "SimpleQueue[In]":
    """A queue of what the parent orders, in a child that computes for long: a thread reads the
    channel meanwhile. When the parent has gone, this process ends at once, whatever it computes,
    since nobody needs the result.
    """
    orders: SimpleQueue[In] = SimpleQueue()
    threading.Thread(target=_read_orders, args=(channel, orders), daemon=True).start()
    return orders


def _read_orders(channel: Channel[In, Out], orders: "SimpleQueue[In]") -> None:
    try:
        while (order := channel.receive()) is not None:
            orders.put(order)
    finally:
        os._exit(1)  # a scoring process of this one ends when our end of its pipe closes


@contextmanager
def telling(send: Callable[[Failed], None]) -> Iterator[None]:
    """Wraps all that a child does: an exception in the context becomes its last message, and goes
    no further.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the parent is told
        by_user = isinstance(error, UserError)
        if not by_user:
            traceback.print_exc()
        line = str(error) if by_user else " ".join(f"{type(error).__name__}: {error}".split())
        with suppress(OSError):  # the parent has gone
            words = line.encode(errors="replace").decode()
            send(Failed(words, by_user, passing=exit_code(error) == os.EX_TEMPFAIL))
