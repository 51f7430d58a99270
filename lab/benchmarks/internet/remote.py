"""A host in a process of its own, driven by JSON lines, so that hosts can live in different
networks.

`python -m lab.benchmarks.internet.remote BACKEND ROLE OPTIONS` is the process, `Remote` our end of
it.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from lab.benchmarks.internet.namespaces import Namespace
from protocol.identity import Identity
from protocol.messages import PeerId
from swarm_node.network.backend import Backend, Caller, CallFailed
from swarm_node.network.transport.backends import MAX_CONNECTIONS
from swarm_node.network.transport.libraries import make_backend
from swarm_node.settings import NetworkConfig

ROOT = Path(__file__).parents[3]
ECHO = "/swarm-node-remote/echo/1"
LIMIT = 512 * 1024  # bytes, request and reply
PATIENCE = 30.0  # seconds


class Remote:
    """A running host. Methods are those of a backend; a CallFailed in the host's process is a
    RemoteFailed here.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.peer_id = PeerId(self._read()["peer"])

    @classmethod
    def start(
        cls, where: Namespace, backend: str, bootstrap: bool = False, **options: Any
    ) -> "Remote":
        options = {"host": "0.0.0.0", "relay": True, **options}
        role = "bootstrap" if bootstrap else "node"
        command = [
            sys.executable,
            "-m",
            "lab.benchmarks.internet.remote",
            backend,
            role,
            json.dumps(options),
        ]
        return cls(where.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT))

    def dial(self, addresses: Sequence[str], timeout: float = PATIENCE) -> str:
        return str(self._do("dial", list(addresses), timeout))

    def echo(self, peer: PeerId, text: str, timeout: float = PATIENCE) -> str:
        return self.call(peer, ECHO, text.encode(), timeout).decode()

    def call(self, peer: PeerId, protocol: str, request: bytes, timeout: float = PATIENCE) -> bytes:
        return bytes.fromhex(self._do("call", peer, protocol, request.hex(), timeout))

    def counters(self) -> dict[str, int]:
        return dict(self._do("counters"))

    def addresses(self) -> list[str]:
        return list(self._do("addresses"))

    def connections(self) -> list[tuple[PeerId, str, bool]]:
        return [
            (PeerId(peer), address, relayed) for peer, address, relayed in self._do("connections")
        ]

    def _do(self, operation: str, *arguments: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([operation, *arguments]) + "\n")
        self.process.stdin.flush()
        answer = self._read()
        if "failed" in answer:
            raise RemoteFailed(answer["failed"])
        return answer["result"]

    def _read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


class RemoteFailed(Exception):
    pass


async def answer(caller: Caller, request: bytes) -> bytes:
    return b">" + request


async def started(backend: str, bootstrap: bool, options: dict[str, Any]) -> Backend:
    config = NetworkConfig.model_validate({"backend": backend, **options})
    host = make_backend(
        config, Identity.create(), bootstrap, max_connections=512 if bootstrap else MAX_CONNECTIONS
    )
    await host.start({ECHO: answer}, {ECHO: LIMIT})
    return host


def operations(host: Backend) -> dict[str, Callable[..., Awaitable[Any]]]:
    async def call(peer: str, protocol: str, request: str, timeout: float) -> str:
        return (
            await host.call(PeerId(peer), protocol, bytes.fromhex(request), LIMIT, timeout)
        ).hex()

    async def counters() -> dict[str, int]:
        return dict(host.counters)

    async def connections() -> list[tuple[str, str, bool]]:
        return [(it.peer, it.address, it.relayed) for it in await host.connections()]

    return {
        "dial": host.dial,
        "call": call,
        "counters": counters,
        "addresses": host.addresses,
        "connections": connections,
    }


def say(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def main(backend: str, role: str, options: str) -> None:
    host = await started(backend, role == "bootstrap", json.loads(options))
    known = operations(host)
    say({"peer": host.peer_id})
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        operation, *arguments = json.loads(line)
        try:
            say({"result": await known[operation](*arguments)})
        except CallFailed as error:
            say({"failed": str(error)})
    await host.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
