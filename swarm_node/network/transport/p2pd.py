"""The go-libp2p daemon that hivemind ships (`p2pd`), as a child process with a control socket.

hivemind itself is never imported: that would load torch, 245 MB. Its package is only looked up, for
the binary and for the generated protobuf of the control protocol. Each control request is a
connection of its own to a unix socket; opening a stream turns that connection into the stream; an
inbound stream is a connection of the daemon to our socket.
"""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from swarm_node.common.awake_loop import awake_timeout
from swarm_node.common.children import ChildKilled, start_program
from swarm_node.common.errors import UserError, printable_end
from swarm_node.network import varint
from swarm_node.network.confinement import Confinement, of_the_daemon
from swarm_node.network.transport.backends import HostOptions
from swarm_node.network.transport.doorway import Doorway, Serve
from swarm_node.network.transport.leftovers import socket_room

START_SECONDS = 15.0  # it takes 0.25 s on an idle machine
STOP_SECONDS = 2.0
ENDING_SECONDS = 0.5  # until a daemon that has closed its output has ended
REQUEST_SECONDS = 5.0  # for requests that the daemon answers by itself
MAX_CONTROL_BYTES = 4 * 1024 * 1024  # a reply of the daemon
ORPHAN_SECONDS = 20  # a daemon that nobody ever connected to ends after this
# Soft limit of the Go heap: beyond it garbage is collected more often
MEMORY_BYTES = 96 * 1024 * 1024
RELAY_BYTES = 256 * 1024 * 1024  # passed on in each direction before a relayed connection ends


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class DaemonError(Exception):
    """The daemon refused a request; the text is the daemon's."""


class Daemon:
    """One running p2pd. It ends when this process does, however that ends: it watches one open
    control connection.
    """

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, room: ExitStack) -> None:
        self._process = process
        self._folder, self._room = folder, room  # of its sockets
        self._lines: deque[str] = deque(maxlen=5)  # last words; may hold text of peers
        self._draining: asyncio.Task[None] | None = None
        self._leash: asyncio.StreamWriter | None = None
        self._doorway: Doorway | None = None

    @classmethod
    async def start(cls, options: HostOptions) -> Self:
        """A daemon that takes requests, after about 0.3 s. UserError where it does not start:
        ChildKilled where a signal ended it.
        """
        with ExitStack() as stack:
            parent = options.sockets or stack.enter_context(socket_room())
            folder = Path(tempfile.mkdtemp(prefix="p2pd-", dir=parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            process = await _spawn(folder, options)
            self = cls(process, folder, stack.pop_all())
        try:
            async with awake_timeout(START_SECONDS):
                await self._ready()
                self._draining = asyncio.create_task(self._drain())
                self._leash = (await self._connect(request_of("PERSISTENT_CONN_UPGRADE")))[2]
        except BaseException as error:
            what = options.config.p2pd or "p2pd"
            code = await self._ended_by_itself() if isinstance(error, EOFError | OSError) else 0
            await self.stop()
            if code < 0:
                raise ChildKilled(f"the network daemon {what}", code) from error
            if not isinstance(error, TimeoutError | EOFError | OSError | DaemonError):
                raise
            raise UserError(
                f"the network daemon {what} did not start: {self.last_words() or error!r}; is its "
                "port taken?"
            ) from error
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    async def listen(
        self, protocols: Sequence[str], welcome: Callable[[Any], bool], serve: Serve
    ) -> None:
        """Inbound streams of these protocols go to `serve`, with a StreamInfo (peer, addr: bytes;
        proto: str), unless `welcome` refuses them at once.
        """

        def read(data: bytes) -> Any:
            try:
                return pb().StreamInfo.FromString(data)
            except Exception as error:  # DecodeError of protobuf, which comes with hivemind alone
                raise ValueError("p2pd sent nonsense") from error

        path = str(self._folder / "streams")
        self._doorway = Doorway(path, read, welcome, serve)
        address = varint.encode(400) + varint.prefixed(path.encode())  # /unix/<path>
        handler = pb().StreamHandlerRequest(addr=address, proto=protocols, balanced=False)
        await self.request(request_of("STREAM_HANDLER", streamHandler=handler))

    async def request(self, request: Any, timeout: float = REQUEST_SECONDS) -> Any:
        """The daemon's Response. DaemonError if it refuses, TimeoutError, and OSError or EOFError
        if it is gone.
        """
        async with awake_timeout(timeout):
            response, _, writer = await self._connect(request)
        writer.close()
        return response

    async def open_stream(self, peer: bytes, protocol: str, timeout: float) -> Streams:
        """A stream to a connected or known peer; errors as in `request`."""
        opening = pb().StreamOpenRequest(
            peer=peer, proto=[protocol], timeout=whole_seconds(timeout)
        )
        async with asyncio.timeout(timeout):
            return (await self._connect(request_of("STREAM_OPEN", streamOpen=opening)))[1:]

    async def wait_closed(self) -> str:
        """Why the daemon ended; returns once it has."""
        code = await self._process.wait()
        return f"p2pd ended with code {code}: {self.last_words() or 'no message'}"

    async def _ended_by_itself(self) -> int:
        """The code of a daemon that has ended, or ends within a moment; else 0."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                return await self._process.wait()
        return 0

    def last_words(self) -> str:
        """Last lines of the daemon's log, printable, at most 300 characters."""
        # Cut from behind: what the daemon said last is what ended it
        return printable_end(ascii(" | ".join(self._lines))[1:-1], 300)

    async def stop(self) -> None:
        """Ends the daemon and all that was waiting for it."""
        if self._doorway is not None:
            self._doorway.close()
        if self._leash is not None:
            self._leash.close()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with awake_timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._draining is not None:
            await self._draining
        self._room.close()

    async def _connect(
        self, request: Any
    ) -> tuple[Any, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(str(self._folder / "control"))
        try:
            writer.write(varint.prefixed(request.SerializeToString()))
            response = pb().Response.FromString(
                await varint.read_prefixed(reader.readexactly, MAX_CONTROL_BYTES)
            )
            if response.type == pb().Response.ERROR:
                raise DaemonError(response.error.msg)
        except BaseException:
            writer.close()
            raise
        return response, reader, writer

    async def _ready(self) -> None:
        while line := await self._line():
            if line.startswith("Peer ID:"):
                self._lines.clear()
                return
        raise EOFError("it ended at once")

    async def _drain(self) -> None:
        while await self._line():
            pass

    async def _line(self) -> str:
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
        except ValueError:  # longer than the buffer, which the stream has dropped
            line = b"(a very long line)\n"
        if line.strip():
            self._lines.append(line.decode(errors="replace").strip())
        return line.decode(errors="replace")


def _flags(options: HostOptions) -> list[str]:
    """The command-line flags of p2pd. The addresses in `options` are checked already."""
    most, announce = options.max_connections, options.config.announce
    out = [
        f"-hostAddrs={','.join(options.listen)}",
        "-b=0",  # bootstrapping here would delay the start by 5 s for each dead peer
        # Without -autoRelay: that wants the DHT, and waits 3 minutes unless it knows four relays
        "-relay=1",
        f"-relayService={int(options.bootstrap)}",
        "-autonat=1",
        "-natPortMap=0",
        "-connManager=1",
        f"-connLo={most}",
        f"-connHi={most + most // 2}",
        "-connGrace=20s",
        f"-idleTimeout={ORPHAN_SECONDS}s",
    ]
    if announce:  # instead of what the daemon sees itself
        out.append(f"-announceAddrs={','.join(announce)}")
    if options.bootstrap:  # be a relay, and be sure to be reachable
        out += ["-forceReachabilityPublic=1", f"-relayDataLimit={RELAY_BYTES}"]
    return out


def request_of(kind: str, **fields: Any) -> Any:
    """Returns a request to the daemon p2pd of this kind, with these fields."""
    return pb().Request(type=getattr(pb().Request, kind), **fields)


def whole_seconds(timeout: float) -> int:
    """The timeout in whole seconds, as the daemon counts; never 0, which would mean its own
    default.
    """
    return max(1, int(timeout + 0.999))


@cache
def pb() -> Any:
    """Generated messages of the control protocol."""
    path = _hivemind() / "proto" / "p2pd_pb2.py"
    spec = importlib.util.spec_from_file_location("swarm_node.network._p2pd_pb2", path)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (OSError, ImportError) as error:
        raise UserError(
            f"hivemind is incomplete ({error}); run: pip install --force-reinstall hivemind"
        ) from error
    return module


def _hivemind() -> Path:
    spec = importlib.util.find_spec("hivemind")
    assert spec is not None and spec.submodule_search_locations, "see libraries.check_installed"
    return Path(spec.submodule_search_locations[0])


def program(binary: str = "") -> Path:
    """The daemon's file: `binary`, or the one in hivemind's package where that is empty."""
    return Path(binary).expanduser().absolute() if binary else _hivemind() / "hivemind_cli" / "p2pd"


async def _spawn(folder: Path, options: HostOptions) -> asyncio.subprocess.Process:
    key_reader, key_writer = os.pipe()  # the key never touches another file
    binary, confinement = program(options.config.p2pd), None
    try:
        confinement = Confinement(of_the_daemon(binary, folder), options.config.port)
        os.write(key_writer, options.identity.key_bytes())
        os.close(key_writer)
        command = [
            str(binary),
            f"-listen=/unix{folder}/control",
            f"-id=/dev/fd/{key_reader}",
            *_flags(options),
        ]
        environment = {
            "GOLOG_LOG_LEVEL": "error",
            "GOMAXPROCS": "1" if options.bootstrap else "2",  # 1: see HivemindBackend._start_daemon
            # A third less CPU for a flood of streams than at 50, and 25 MB more while it lasts
            "GOGC": "200",
            "GOMEMLIMIT": str(MEMORY_BYTES),
        }
        return await start_program(command, environment, [key_reader], confinement.enter)
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        what = (
            f"{binary}, named with --network.p2pd,"
            if options.config.p2pd
            else "the network daemon p2pd"
        )
        raise UserError(
            f"{what} cannot run here ({reason}); try --network.backend libp2p"
        ) from error
    finally:
        os.close(key_reader)
        if confinement is not None:
            confinement.close()
