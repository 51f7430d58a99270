"""Inbound streams of p2pd at a bare socket. p2pd connects once for each stream, and first says
whose it is (a StreamInfo). The doorway reads that, and turns most of a flood away, before it makes
a task or a buffer for a stream.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from swarm_node.network import varint

BACKLOG = 128  # connections of p2pd that wait; beyond that it gives the stream up
PAUSE = 1.0  # seconds without accepting, when no descriptors are left
AT_ONCE = 32  # connections accepted between two turns of the loop
INFO_BYTES = 4096  # peer, address and protocol take 150
Serve = Callable[[Any, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Doorway:
    """Listens for inbound streams of p2pd until `close`. Belongs to the asyncio loop it was made
    in.
    """

    def __init__(
        self, path: str, read: Callable[[bytes], Any], welcome: Callable[[Any], bool], serve: Serve
    ) -> None:
        """`read` makes a StreamInfo of its bytes (ValueError); `welcome` says whether to serve the
        stream at all; `serve` runs in a task of its own, and its stream is closed after it.
        """
        self._read, self._welcome, self._serve = read, welcome, serve
        self._loop = asyncio.get_running_loop()
        self._unread: set[socket.socket] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind(path)
        self._listener.listen(BACKLOG)
        self._again: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._listener, self._knocked)

    def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for each in list(self._unread):
            self._forget(each)
            each.close()
        for task in self._serving:
            task.cancel()

    def _knocked(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:  # nobody waits any more
                return
            except OSError:  # no descriptors are left
                self._loop.remove_reader(self._listener)
                self._again = self._loop.call_later(
                    PAUSE, self._loop.add_reader, self._listener, self._knocked
                )
                return
            connection.setblocking(False)
            if not self._look(connection):
                self._unread.add(connection)
                self._loop.add_reader(connection, self._said, connection)

    def _said(self, connection: socket.socket) -> None:
        if self._look(connection):
            self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        self._unread.discard(connection)
        self._loop.remove_reader(connection)

    def _look(self, connection: socket.socket) -> bool:
        """Serves or closes a stream once its info has come. False: the info is not complete yet."""
        try:
            # What follows the info belongs to the stream
            data = connection.recv(INFO_BYTES, socket.MSG_PEEK)
            if (span := _span(data)) is None or span.stop > len(data):
                return False
            info = self._read(data[span])
        except BlockingIOError:
            return False
        except (OSError, ValueError):  # the daemon's side broke, or sent no info
            connection.close()
            return True
        if not self._welcome(info):
            connection.close()
            return True
        connection.recv(span.stop)
        task = self._loop.create_task(self._opened(info, connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return True

    async def _opened(self, info: Any, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            with suppress(EOFError, OSError):  # the daemon's side broke
                await self._serve(info, reader, writer)
        finally:
            writer.close()


def _span(data: bytes) -> slice | None:
    """Where the info lies in the first bytes of a connection; None while its length is incomplete.
    ValueError for bytes that are no info.
    """
    if data and len(data) < varint.MAX_BYTES and min(data) >= 0x80:
        return None
    length, rest = varint.decode(data)
    if length > INFO_BYTES - varint.MAX_BYTES:
        raise ValueError(f"{length} bytes of info")
    start = len(data) - len(rest)
    return slice(start, start + length)
