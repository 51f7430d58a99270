"""The doorway looks at a stream of p2pd before it makes a task for that stream."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from swarm_node.network import varint
from swarm_node.network.transport.doorway import Doorway

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def through(
    folder: Path, visit: Callable[[Callable[[], Awaitable[Client]], Doorway], Awaitable[None]]
) -> None:
    """A doorway that echoes the first five bytes of streams whose info is not "flood"."""

    def read(data: bytes) -> str:
        return data.decode("ascii")  # ValueError where the data is not ASCII

    async def echo(info: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(info.encode() + await reader.readexactly(5))
        await writer.drain()

    async def live() -> None:
        path = str(folder / "streams")
        door = Doorway(path, read, lambda info: info != "flood", echo)
        try:
            await visit(lambda: asyncio.open_unix_connection(path), door)
        finally:
            door.close()

    asyncio.run(live())


def test_what_follows_the_info_is_the_streams_in_however_many_pieces_it_comes(
    tmp_path: Path,
) -> None:
    async def visit(come, _):
        sent = varint.prefixed(b"honest") + b"hello"
        for cut in range(1, len(sent)):
            reader, writer = await come()
            writer.write(sent[:cut])
            await asyncio.sleep(0)
            writer.write(sent[cut:])
            assert await reader.read() == b"honesthello", cut
            writer.close()

    through(tmp_path, visit)


def test_the_unwelcome_and_nonsense_are_closed_without_a_task(tmp_path: Path) -> None:
    async def visit(come, door):
        for sent in (
            varint.prefixed(b"flood"),
            varint.prefixed(b"\xff"),
            b"\xff" * 20,
            varint.encode(1 << 40),
        ):
            reader, writer = await come()
            writer.write(sent)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            assert not door._serving and not door._unread

    through(tmp_path, visit)


def test_who_says_nothing_keeps_nobody_out(tmp_path: Path) -> None:
    async def visit(come, door):
        silent = [await come() for _ in range(50)]
        reader, writer = await come()
        writer.write(varint.prefixed(b"honest") + b"hello")
        assert await reader.read() == b"honesthello"
        assert len(door._unread) == 50
        for _, each in [*silent, (reader, writer)]:
            each.close()

    through(tmp_path, visit)
