"""A peer that opens streams without end is turned away before anything is spent on it; others are
let in.
"""

import asyncio
from collections import Counter

from protocol.messages import PeerId
from swarm_node.network.backend import Caller
from swarm_node.network.transport.streams import (
    NEW_STREAMS,
    REFUSED_STREAMS,
    WINDOW_SECONDS,
    Answering,
)
from tests.waiting import until_awaited

FLOODER, HONEST = (Caller(PeerId(name), "/ip4/127.0.0.1/tcp/1") for name in ("flooder", "honest"))


def test_a_peer_opens_so_many_streams_in_a_while_and_others_are_let_in_beside_it() -> None:
    answering = Answering({}, {}, 16)
    taken = [answering.admits(FLOODER, 100.0 + k / 1000) for k in range(1000)]
    assert taken == [True] * NEW_STREAMS + [False] * (1000 - NEW_STREAMS)
    assert answering.admits(HONEST, 101.5) and not answering.admits(
        FLOODER, 100.0 + WINDOW_SECONDS - 0.1
    )
    assert answering.admits(FLOODER, 100.0 + WINDOW_SECONDS)


def test_identities_of_one_network_open_so_many_streams_in_a_while_as_one_peer() -> None:
    answering = Answering({}, {}, 16)
    crowd = [Caller(PeerId(f"id{k}"), f"/ip4/45.33.10.{k % 250}/tcp/{k}") for k in range(1000)]
    taken = [answering.admits(caller, 100.0 + k / 1000) for k, caller in enumerate(crowd)]
    assert taken == [True] * NEW_STREAMS + [False] * (1000 - NEW_STREAMS)
    assert not answering.admits(Caller(PeerId("another"), "/ip6/2002:2d21:a07::1/tcp/1"), 101.5)
    assert answering.admits(Caller(PeerId("another"), "/ip4/45.33.11.7/tcp/1"), 101.5)


def test_a_peer_that_goes_on_opening_refused_streams_is_hung_up_on_and_an_honest_one_never() -> (
    None
):
    hung_up = list[PeerId]()
    answering = Answering({}, {}, 16, hang_up=hung_up.append)
    for k in range(NEW_STREAMS + REFUSED_STREAMS - 1):
        answering.admits(FLOODER, 100.0 + k / 1000)
    assert hung_up == []
    for k in range(1 + REFUSED_STREAMS):
        answering.admits(FLOODER, 101.0 + k / 1000)
    assert hung_up == [FLOODER.peer] * 2
    answering.admits(HONEST, 102.0)
    answering.admits(FLOODER, 100.0 + WINDOW_SECONDS)
    assert hung_up == [FLOODER.peer] * 2, "in the next window it is let in again"


class Pipe:
    """A stream that delivers each call as soon as it is read."""

    def __init__(self, calls: int) -> None:
        self.calls, self.answers, self._half = calls, list[bytes](), False

    async def read(self, size: int) -> bytes:
        if not self.calls:
            raise EOFError
        self._half = not self._half
        if self._half:
            return (1).to_bytes(4, "big")
        self.calls -= 1
        return b"?"

    async def write(self, data: bytes) -> None:
        self.answers.append(data[4:])

    async def close(self) -> None:
        pass


def test_one_party_of_the_internet_has_a_sixteenth_of_the_calls_while_others_are_answered() -> None:
    async def scenario() -> None:
        gate, working, most = asyncio.Event(), Counter[str](), Counter[str]()

        async def slow(caller: Caller, request: bytes) -> bytes:
            party = caller.address.rpartition(".")[0]
            working[party] += 1
            most[party] = max(most[party], working[party])
            if party.endswith("45.33.10"):
                await gate.wait()
            working[party] -= 1
            return b"!"

        answering = Answering({"p": slow}, {"p": 10}, 32)
        crowd = [Caller(PeerId(f"id{k}"), f"/ip4/45.33.10.{k}/tcp/1") for k in range(8)]
        pipes = [Pipe(1) for _ in crowd]
        serving = [
            asyncio.create_task(answering.serve(pipe, it, "p"))
            for pipe, it in zip(pipes, crowd, strict=True)
        ]
        await until_awaited(lambda: working["/ip4/45.33.10"] == 2, what="a call")
        other = Pipe(3)
        await answering.serve(other, Caller(PeerId("other"), "/ip4/99.1.1.1/tcp/1"), "p")
        assert other.answers == [b"!"] * 3  # while the crowd still waits
        assert most["/ip4/45.33.10"] == 2  # of 32
        gate.set()
        await asyncio.gather(*serving)
        # The crowd took turns, and none was refused
        assert [pipe.answers for pipe in pipes] == [[b"!"]] * 8
        assert most["/ip4/45.33.10"] == 2

    asyncio.run(scenario())
