"""Length-prefixed JSON over a stream socket: how a node talks to its scoring process.

Both ends are ours, but an answer may take over the scoring process: whoever reads bounds the length first and checks
the content.
"""

import json
import struct
from collections.abc import Callable
from typing import Any

MAX_FRAME_BYTES = 64 * 1024 * 1024  # far above one batch (a few MB); what is longer is not ours
_LENGTH = struct.Struct(">I")


class BrokenFrame(Exception):
    """The bytes are no frame: the other end is no longer what we started."""


def encode(value: Any) -> bytes:
    """ASCII only, so that any text survives, lone surrogates included; NaN and infinity are refused (ValueError)."""
    body = json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    return _LENGTH.pack(len(body)) + body


class Reader:
    """Frames out of a stream, several per system call."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        """`receive` up to so many bytes, none at the end: a socket's `recv`, which may have a timeout, or `os.read`."""
        self._receive = receive
        self._buffer = bytearray()

    def read(self) -> Any | None:
        """The next frame; None at the end of the stream. Raises TimeoutError, BrokenFrame."""
        if not self._fill(_LENGTH.size):
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_FRAME_BYTES:
            raise BrokenFrame(f"frame of {length} bytes")
        if not self._fill(_LENGTH.size + length):
            return None
        body = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
        del self._buffer[: _LENGTH.size + length]
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BrokenFrame(f"not JSON: {error}") from error

    def _fill(self, wanted: int) -> bool:
        while len(self._buffer) < wanted:
            try:
                chunk = self._receive(256 * 1024)
            except ConnectionResetError:
                return False
            if not chunk:
                return False
            self._buffer += chunk
        return True
