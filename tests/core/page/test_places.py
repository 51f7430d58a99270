"""How many connections a page takes, and that nobody keeps its owner out."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from starlette.responses import PlainTextResponse

from swarm_node.page import server as server_module
from swarm_node.page.server import (
    FROM_ONE,
    MOST_CONNECTIONS,
    OTHERS,
    ConnectionSlots,
    listener_at,
    server_of,
)
from tests.waiting import until

OWNER = "127.0.0.1"


def test_one_address_has_a_sixteenth_and_all_others_together_leave_places_for_the_owner() -> None:
    places = ConnectionSlots()
    given = [places.take("192.0.2.1") for _ in range(300)]
    assert sum(each is not None for each in given) == FROM_ONE == MOST_CONNECTIONS // 16
    found = [places.take(f"198.51.100.{index}") for index in range(256) for _ in range(2)]
    assert sum(each is not None for each in found) == OTHERS - FROM_ONE
    assert places.take("203.0.113.1") is None
    owner = [places.take("127.0.0.1") for _ in range(MOST_CONNECTIONS)]
    assert sum(each is not None for each in owner) == MOST_CONNECTIONS - OTHERS
    for leave in (*given, *found, *owner):
        if leave is not None:
            leave()
    assert sum(places.take("127.0.0.1") is not None for _ in range(300)) == MOST_CONNECTIONS


def test_all_addresses_of_a_64_are_one_party_and_mapped_ones_are_what_they_map() -> None:
    places = ConnectionSlots()
    taken = [places.take(f"2001:db8:0:1::{index:x}") for index in range(1, 100)]
    assert sum(each is not None for each in taken) == FROM_ONE
    assert places.take("2001:db8:0:2::1") is not None
    assert sum(places.take("::ffff:192.0.2.9") is not None for _ in range(FROM_ONE)) == FROM_ONE
    assert places.take("192.0.2.9") is None
    for own in ("::1", "::ffff:127.0.0.1", "127.8.8.8", "fe80::1%lo"):
        assert places.take(own) is not None


@pytest.fixture
def port() -> Iterator[int]:
    """A server whose owner is 127.0.0.1 alone: connections from the rest of 127.0.0.0/8 are of
    strangers.
    """
    listener = listener_at("0.0.0.0:0")
    places = ConnectionSlots(lambda address: address == ip_address(OWNER))
    server = server_of(PlainTextResponse("here\n"), places)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
    )
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(10)


def connected(source: str, port: int) -> socket.socket:
    found = socket.socket()
    found.settimeout(10)
    found.bind((source, 0))
    found.connect((OWNER, port))
    return found


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def answer(source: str, port: int) -> bytes:
    with connected(source, port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(OSError):
            return connection.recv(100)
        return b""


def test_hundreds_of_slow_connections_do_not_keep_the_owner_out(port: int) -> None:
    until(lambda: answer(OWNER, port), what="an answer")
    slow = [connected(f"127.0.1.{1 + index % 5}", port) for index in range(600)]
    for each in slow:
        with contextlib.suppress(OSError):
            each.sendall(b"GET / HTTP/1.1\r\nHost: loc")
    until(lambda: sum(map(is_open, slow)) == 5 * FROM_ONE, what="refusals")
    assert b"200 OK" in answer(OWNER, port)
    assert b"200 OK" in answer("127.0.2.1", port), "another address has places of its own"
    more = [connected(f"127.0.{3 + index // 200}.{1 + index % 200}", port) for index in range(300)]
    until(lambda: sum(map(is_open, [*slow, *more])) <= OTHERS, what="refusals")
    assert b"200 OK" in answer(OWNER, port) and answer("127.0.2.1", port) == b""
    for each in (*slow, *more):
        each.close()
    until(lambda: answer("127.0.2.1", port), what="places that were given back")


def test_clients_that_never_finish_asking_are_let_go(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HEADER_SECONDS", 0.5)
    slow = [connected(OWNER, port) for _ in range(20)]
    for each in slow:
        each.sendall(b"GET / HTTP/1.1\r\nHost: loc")
    assert b"200 OK" in answer(OWNER, port)
    until(lambda: not any(map(is_open, slow)), what="their end")
