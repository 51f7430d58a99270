"""`swarm-node bootstrap`: a node that passes announcements on, relays for others, and trains
nothing.

One process beside the daemon of its backend, and no torch in either: it is meant to run for months
on a small machine.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path

from swarm_node.common.awake_loop import run_waking
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError, printable
from swarm_node.common.linux import OWN
from swarm_node.home.folder import load_identity, owned
from swarm_node.network.process import control
from swarm_node.network.process.confined import confine
from swarm_node.network.process.control import socket_path
from swarm_node.network.process.keeper import Keeper, load_memory
from swarm_node.network.process.service import NetworkService, SampledTasks
from swarm_node.network.transport.backends import check_addresses
from swarm_node.network.transport.leftovers import socket_room
from swarm_node.settings import BootstrapConfig, NetworkConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.swarm.joining import follow_card

PAGE = """\
usage: swarm-node bootstrap [--port N] [--home FOLDER] [--peers MULTIADDR ...]

Runs a bootstrap and relay node: an entry point that helps other nodes find and
reach each other. It trains nothing. Prints its addresses. Ctrl-C stops it.

  --port N                 port to listen on, reachable by others (31330)
  --home FOLDER            identity and known peers (~/.swarm-node)
  --peers MULTIADDR ...    other bootstrap nodes of the swarm
  --announce MULTIADDR     its address, if it cannot see it (forwarded port)
  --swarm NAME             name of the swarm (public)
  --upload-limit N         kilobytes per second that others can download (4096)
  --page HOST:PORT         a public dashboard about the state of the swarm"""


def bootstrap(
    config: BootstrapConfig,
    show: Callable[[str], None],
    warn: Callable[[str], None],
    note: Callable[[str], None] = lambda text: None,
) -> None:
    """Runs until SIGINT, SIGTERM or SIGHUP. `show` gets the node's full multiaddrs, one a call, as
    they become known; `note` gets lines about the start, and `warn` all other lines.
    """
    config = follow_card(config, warn, keep=True)
    check_addresses(_network(config))
    home = config.home.expanduser().absolute()  # p2pd needs absolute paths of its sockets
    with owned(home), socket_room(home) as sockets:
        note("starting ...")
        run_waking(_serve(config, sockets, show, warn))


async def _serve(
    config: BootstrapConfig, sockets: Path, show: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    # Now: the first line need not wait for these
    from swarm_node.page.observer import page
    from swarm_node.telemetry.events import Begun, Telemetry, observe

    home, shown = config.home.expanduser(), set[str]()

    def changed(addresses: Sequence[str]) -> None:
        for address in addresses:
            if address not in shown:
                shown.add(address)
                show(address)
        keeper.addresses(addresses)

    def say(text: str, warning: bool) -> None:
        warn(text)

    identity, tasks = load_identity(home), SampledTasks(lambda cards: keeper.renew(cards))
    service = NetworkService(
        identity,
        config.swarm,
        _network(config),
        load_memory(home, config.swarm),
        deliver=tasks.take,
        say=say,
        changed=changed,
        sockets=sockets,
        max_connections=config.max_connections,
    )
    of_service = service.memory, service.allow, service.go_by
    keeper = Keeper(home, config.swarm, *of_service, say, time.time)

    async def answer() -> dict[str, object]:
        network = {"running": True, **service.view(), "sampled_tasks": tasks.counts()}
        return {
            "role": "bootstrap",
            "peer_id": identity.peer_id,
            "pid": os.getpid(),
            "network": network,
        }

    try:
        server = await control.serve(home, answer)
    except (OSError, UserError) as error:
        warn(f"swarm-node status cannot reach this node: {error}; everything else works")
        server = None
    with Telemetry(show=warn) as telemetry:
        observers = observe(telemetry, home, config, {"page": page})
        confine(_network(config), sockets, {home: OWN, socket_path(home).parent: OWN})
        telemetry.emit(Begun())
        besides = [keeper.run()]
        if observers:
            besides.append(tasks.keep_looking(service))
        try:
            await _live(service, besides)
        finally:
            if server is not None:
                server.close()


async def _live(service: NetworkService, besides: Sequence[Coroutine[None, None, None]]) -> None:
    # First: the keeper says whether the swarm is private
    others = [asyncio.create_task(each) for each in besides]
    living = asyncio.create_task(service.live())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            asyncio.get_running_loop().add_signal_handler(number, living.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await living
    finally:
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _network(config: BootstrapConfig) -> NetworkConfig:
    return NetworkConfig(**config.model_dump(include=set(NetworkConfig.model_fields)))


def as_written(text: str, argv: Sequence[str]) -> str:
    """The text with flags as this command has them: messages of the network name those of `run`,
    which a user may have written here, too.
    """
    if any(word.startswith("--network.") for word in argv):
        return text
    return text.replace("--network.no-", "--no-").replace("--network.", "--")


def command(argv: list[str]) -> None:
    """Runs until it is told to stop. Prints addresses to standard output, and other lines to
    standard error.
    """
    config = from_command_line(BootstrapConfig, argv, "swarm-node bootstrap", flags_only=True)

    def tell(text: str) -> None:
        print(printable(as_written(text, argv), 400), file=sys.stderr, flush=True)

    def show(address: str) -> None:
        print(printable(address), flush=True)

    try:
        bootstrap(config, show, tell, tell)
    except UserError as error:
        raise type(error)(as_written(str(error), argv)) from error


BOOTSTRAP = Command(BootstrapConfig, PAGE, command)
