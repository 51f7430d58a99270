"""Frames between trainer and network process: what goes in comes out, and neither end can be hurt or held up."""

import asyncio
import socket

import pytest

from protocol.messages import PeerId, Round
from swarm_node.network.access import parse
from swarm_node.network.process import messages
from swarm_node.network.process.messages import (
    Alive,
    Allow,
    Ask,
    BrokenFrame,
    Memory,
    Outbox,
    Publish,
    Received,
    Refused,
    Rules,
    Said,
    Start,
    Stop,
    Verdict,
    View,
)
from swarm_node.settings import NetworkConfig
from tests.groups import group
from tests.waiting import PATIENCE

MEMORY = Memory(port=7, exchange={"seq": 3, "seen": ["a"]}, peers={PeerId("12D3x"): ("/ip4/127.0.0.1/tcp/1",)})
RULES = Rules(swarm="s", environments={"e": ("1", {"d": ("c",)})}, max_completions=8)
LISTS = parse('block_peers = ["12D3x"]\nallow_networks = ["10.0.0.0/8", "fd00::/8"]')
FRAMES = [
    MEMORY,
    Start(
        key=bytes(range(256)),
        rules=RULES,
        folder="/s",
        config=NetworkConfig(peers=("/x",)),
        memory=MEMORY,
        access=LISTS,
        want=4,
    ),
    Allow(access=LISTS),
    Publish(round=Round(3), want=4, envelopes=(b"\xff\xfe", b"")),
    Verdict(author=PeerId("12D3x"), content_hash=bytes(32), outcome="useful"),
    Ask(number=1),
    Stop(),
    Received(group=group(PeerId("12D3x")), content_hash=bytes(range(32))),
    Refused(reason="wrong seed"),
    Said(text="line\n\x1b[31m", warning=True),
    Alive(connected=2),
    View(number=1, view={"a": [1, None, "b"]}),
]


def read_all(data: bytes) -> list[messages.Frame]:
    async def reading() -> list[messages.Frame]:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        found = []
        while (frame := await messages.read(reader)) is not None:
            found.append(frame)
        return found

    return asyncio.run(reading())


def test_every_frame_survives_the_way() -> None:
    assert read_all(b"".join(map(messages.encode, FRAMES))) == FRAMES


def test_a_stream_that_ends_within_a_frame_is_an_end() -> None:
    data = messages.encode(FRAMES[0])
    assert read_all(data + data[:-1]) == [FRAMES[0]]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff" + b"x" * 100,  # refused by its length, before anything is held
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x10" + b'{"kind":"nosuch"',
        b"\x00\x00\x00\x03\xff\xfe\xfd",
    ],
)
def test_what_is_no_frame_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(BrokenFrame):
        read_all(data)


def test_an_outbox_nobody_empties_keeps_the_newest_and_counts_the_rest() -> None:
    async def use() -> tuple[list[messages.Frame], int]:
        ours, theirs = socket.socketpair()
        reader, kept = await asyncio.open_connection(sock=theirs)
        _, writer = await asyncio.open_connection(sock=ours)
        outbox = Outbox(3)
        for number in range(10):
            outbox.put(Ask(number=number))
        pumping = asyncio.create_task(outbox.pump(writer))
        received = [await messages.read(reader) for _ in range(3)]
        pumping.cancel()
        writer.close()
        kept.close()
        return [frame for frame in received if frame], outbox.dropped

    assert asyncio.run(use()) == ([Ask(number=7), Ask(number=8), Ask(number=9)], 7)


def test_a_reader_that_stops_reading_costs_bounded_memory_and_no_time() -> None:
    async def use() -> tuple[int, int]:
        ours, _theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        outbox = Outbox(4)
        pumping = asyncio.create_task(outbox.pump(writer))
        for _ in range(100):
            outbox.put(View(number=0, view={"": "x" * 64 * 1024}))
            await asyncio.sleep(0)  # lets the pump go as far as it can
        waiting = writer.transport.get_write_buffer_size()
        pumping.cancel()
        writer.transport.abort()
        _theirs.close()
        return outbox.dropped, waiting

    dropped, waiting = asyncio.run(use())
    assert dropped > 80
    assert waiting < 512 * 1024


def test_a_pump_ends_when_the_other_end_is_gone() -> None:
    async def use() -> None:
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        theirs.close()
        outbox = Outbox(1000)
        async with asyncio.timeout(PATIENCE):
            pumping = asyncio.create_task(outbox.pump(writer))
            while not pumping.done():
                outbox.put(Ask(number=0))
                await asyncio.sleep(0)
            await pumping

    asyncio.run(use())


def test_what_is_too_big_for_a_frame_is_dropped_and_counted() -> None:
    outbox = Outbox(3)
    outbox.put(View(number=0, view={"": "x" * messages.MAX_FRAME_BYTES}))
    assert outbox.dropped == 1
