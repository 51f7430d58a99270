"""A small SOCKS5 proxy on loopback, and the absence of the package that speaks to one."""

import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

NO_PASSWORD, PASSWORD, NO_WAY = 0, 2, 0xFF
NAME, DONE, REFUSED = 3, 0, 5


def without_socksio(patch: pytest.MonkeyPatch) -> None:
    """Hides the package, which the extra dev brings along and a node does not."""
    patch.setitem(sys.modules, "socksio", None)


class SocksProxy:
    """Sends every connection on to one port of loopback, whatever host is asked for."""

    def __init__(
        self, to: int, password: str = "", refuses: bool = False, raw: bytes = b""
    ) -> None:
        """`to`: the port. `password`: USER:PASSWORD that it wants. `refuses`: it connects to
        nothing. `raw`: what it says in place of SOCKS.
        """
        self.asked: list[str] = []  # HOST:PORT
        self.passwords: list[str] = []  # USER:PASSWORD, as they were given
        self._to, self._password, self._refuses, self._raw = to, password, refuses, raw
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accepts no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, EOFError):
            _, ways = _exactly(connection, 2)
            _exactly(connection, ways)
            if self._raw:
                connection.sendall(self._raw)
                return
            connection.sendall(bytes([5, PASSWORD if self._password else NO_PASSWORD]))
            if self._password and not self._lets_in(connection):
                return
            host, port = _asked(connection)
            self.asked.append(f"{host}:{port}")
            connection.sendall(bytes([5, REFUSED if self._refuses else DONE, 0, 1]) + bytes(6))
            if not self._refuses:
                with socket.create_connection(("127.0.0.1", self._to)) as onwards:
                    _both_ways(connection, onwards)

    def _lets_in(self, connection: socket.socket) -> bool:
        """Reads user and password (RFC 1929)."""
        _, size = _exactly(connection, 2)
        user = _exactly(connection, size)
        password = _exactly(connection, _exactly(connection, 1)[0])
        self.passwords.append(f"{user.decode()}:{password.decode()}")
        right = self.passwords[-1] == self._password
        connection.sendall(bytes([1, 0 if right else 1]))
        return right


def _asked(connection: socket.socket) -> tuple[str, int]:
    """The host and port of a request to connect (RFC 1928)."""
    *_, kind = _exactly(connection, 4)
    if kind == NAME:
        host = _exactly(connection, _exactly(connection, 1)[0]).decode()
    else:
        host = socket.inet_ntoa(_exactly(connection, 4))
    (port,) = struct.unpack("!H", _exactly(connection, 2))
    return host, port


def _exactly(connection: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        part = connection.recv(size - len(read))
        if not part:
            raise EOFError
        read += part
    return read


def _both_ways(first: socket.socket, second: socket.socket) -> None:
    """Carries what each says to the other, until one of them ends."""
    back = threading.Thread(target=_carry, args=(second, first), daemon=True)
    back.start()
    _carry(first, second)
    back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def socks_proxy(
    to: int, password: str = "", refuses: bool = False, raw: bytes = b""
) -> Iterator[SocksProxy]:
    """A proxy that runs in the context."""
    proxy = SocksProxy(to, password, refuses, raw)
    try:
        yield proxy
    finally:
        proxy.close()
