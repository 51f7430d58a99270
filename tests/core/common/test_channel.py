"""Frames between a process and its child: what goes in comes out, and neither end can be hurt or
held up.
"""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import encode

from protocol.messages import PeerId, RolloutGroup
from swarm_node.common.channel import AsyncChannel, BrokenFrame, Channel, Failed, PipeMessage, Talk
from swarm_node.common.children import start
from swarm_node.common.errors import UserError
from tests.groups import group
from tests.waiting import PATIENCE

MOST = 64 * 1024


class Work(PipeMessage, frozen=True):
    number: int
    data: tuple[bytes, ...] = ()


class Found(PipeMessage, frozen=True):
    group: RolloutGroup
    counts: dict[str, int | float | list[str] | None]


TALK: Talk[Work, Found | Failed] = Talk(Work, Found | Failed, MOST)
PARENT, CHILD = (TALK.up, TALK.down), (TALK.down, TALK.up)
FOUND = Found(group(PeerId("12D3x")), {"a": 1, "b": ["\n\x1b", "é"], "c": None})
SEEDS = [TALK.up.encode(each)[4:] for each in (FOUND, Failed("no", by_user=True))]


def read_all(data: bytes, hello: bytes = TALK.down.hello) -> list[Work]:
    """The messages that a child reads from these bytes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(hello + data)
        ours.shutdown(socket.SHUT_WR)
        return list(iter(Channel(theirs, theirs, *CHILD).receive, None))


@given(
    st.lists(
        st.builds(
            Work, st.integers(-(2**63), 2**63 - 1), st.lists(st.binary(max_size=99)).map(tuple)
        )
    )
)
def test_messages_survive_the_way_and_a_stream_that_ends_within_a_frame_is_an_end(
    sent: list[Work],
) -> None:
    data = b"".join(map(TALK.down.encode, sent))
    assert read_all(data) == sent and read_all(data[:-1]) == sent[:-1]


@given(st.binary(max_size=64))
def test_a_stream_of_any_bytes_ends_or_is_broken(data: bytes) -> None:
    with suppress(BrokenFrame):
        assert all(isinstance(each, Work) for each in read_all(data))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe\xfd",
        encode({"type": "NoSuch\n\x1b[31m"}),
        encode({"type": "Failed", "error": "x", "by_user": True, "more": 1}),
        encode({"type": "Failed", "error": 1, "by_user": True}),
        encode({"error": "x", "by_user": True}),
        SEEDS[0].replace(b'"12D3x"', b'{"1":23}'),  # inside the group, which pydantic reads
        SEEDS[1] + b"\x00",
        b"\x91" * 10_000,
        b"\x83\xa4type\xa5Found\xa6counts\xdf\xff\xff\xff\xff",  # claims four billion entries
    ],
)
def test_what_is_no_message_is_a_broken_frame(body: bytes) -> None:
    assert TALK.up.decode(SEEDS[0]) == FOUND
    with pytest.raises(BrokenFrame, match="not a frame") as caught:
        TALK.up.decode(body)
    # The user sees it, and a stranger may have written the bytes
    assert str(caught.value).isprintable()


def test_a_frame_above_the_limit_is_broken_by_its_length_and_is_never_sent() -> None:
    with pytest.raises(BrokenFrame, match=f"frame of {MOST + 1} bytes"):
        read_all((MOST + 1).to_bytes(4, "big"))
    assert read_all(TALK.down.encode(Work(1, (bytes(MOST - 99),))))
    with pytest.raises(ValueError, match="are allowed"):
        TALK.down.encode(Work(1, (bytes(MOST),)))
    with pytest.raises(ValueError, match="surrogates"):
        TALK.up.encode(Failed("\ud800", by_user=False))


def test_a_child_of_another_version_says_so_before_it_reads_a_message() -> None:
    other: Talk[Work | Failed, Found] = Talk(Work | Failed, Found, MOST)
    for wrong in (other.down.hello, TALK.down.encode(Work(1))):
        with pytest.raises(UserError, match="two versions of swarm-node are mixed"):
            read_all(TALK.down.encode(Work(1)), wrong)


def test_the_greeting_is_the_same_in_every_process() -> None:
    code = (
        "from swarm_node.network.process.messages import NETWORK; print(NETWORK.down.hello.hex())"
    )
    processes = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    assert (
        len({subprocess.check_output([sys.executable, "-c", code], env=each) for each in processes})
        == 1
    )


ECHO = """
from swarm_node.common.channel import Channel, Failed, inherited, telling
from tests.core.common.test_channel import CHILD, Work
channel = Channel((ours := inherited()), ours, *CHILD)
with telling(channel.send):
    while isinstance(message := channel.receive(), Work):
        print("noise")
        if message.number == 3:
            raise ValueError("no\\nsuch")
        channel.send(Failed(str(message.number), by_user=True))
"""


@pytest.mark.parametrize("last", [Work(3), None])
def test_a_real_child_answers_says_what_it_fails_of_and_ends_with_its_parent(
    tmp_path: Path, last: Work | None
) -> None:
    process, ours = start((sys.executable, "-c", ECHO), tmp_path / "log", dict(os.environ))
    with ours:
        parent = Channel(ours, ours, *PARENT)
        parent.send(Work(1))
        assert parent.receive() == Failed("1", by_user=True)
        if last is not None:
            parent.send(last)
            assert (
                parent.receive() == Failed("ValueError: no such", by_user=False)
                and parent.receive() is None
            )
    assert process.wait(PATIENCE) == 0
    assert "noise" in (tmp_path / "log").read_text()


def test_a_channel_nobody_reads_keeps_the_newest_counts_the_rest_and_costs_bounded_memory() -> None:
    async def use() -> None:
        ours, theirs = socket.socketpair()
        made: AsyncChannel = AsyncChannel(await asyncio.open_connection(sock=ours), *PARENT, 4)
        child: AsyncChannel = AsyncChannel(await asyncio.open_connection(sock=theirs), *CHILD, 4)
        pumping = asyncio.create_task(made.pump())
        for number in range(100):
            made.send(Work(number, (bytes(60_000),)))
            await asyncio.sleep(0)  # lets the pump go as far as it can
        assert made._writer.transport.get_write_buffer_size() < 512 * 1024
        made.send(Work(100, (bytes(MOST),)))  # too long
        assert made.dropped > 80
        numbers = [(await child.receive()).number for _ in range(101 - made.dropped)]
        assert numbers[-4:] == [96, 97, 98, 99]
        child.close()
        async with asyncio.timeout(PATIENCE):
            while not pumping.done():  # `pump` ends when the other end is closed
                made.send(Work(0))
                await asyncio.sleep(0)
        assert await made.receive() is None
        made.close()

    asyncio.run(use())
