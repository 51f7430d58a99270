"""Times joins by the file of a card and by a code, in network namespaces. The network processes do
not train.

    python -m lab.studies.joining --json        # as root; docs/results/founding.md

The swarm has four bootstrap nodes, a member, and a member behind a NAT. Newcomers, half of them
behind NATs, join one after another: by the file; by a code of the member behind the NAT; and by the
file again, while three bootstrap nodes drop all packets. A join lasts from the start of a process
until its first exchange. Then the process is ended.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

from lab.benchmarks import command, network
from lab.benchmarks.internet.namespaces import Internet, Namespace
from lab.benchmarks.waiting import until
from lab.studies import guests
from lab.studies.happenings import Bootstrap
from swarm_node.commands import status
from swarm_node.home.folder import load_identity
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process import control
from swarm_node.network.process.keeper import keep_cards
from swarm_node.network.process.messages import Rules
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.swarm.joining import follow_card

BLACKHOLE = ("INPUT", "-i", "eth0", "-j", "DROP")


def newcomer(home: Path, source: str) -> None:
    """Does what `swarm-node run --card` does, without a trainer, until the process is ended."""
    flags = ["--home", str(home), "--card", source, "--network.no-mdns"]
    config = follow_card(from_command_line(NodeConfig, flags, "swarm-node run"), print, keep=True)
    assert isinstance(config, NodeConfig)
    rules = Rules(swarm=config.swarm, environments={})
    RemoteNetwork(
        load_identity(home), home, config.network, rules, 0, network.progress, today=time.time
    ).start()
    signal.pause()


@contextmanager
def joined(
    where: Namespace, home: Path, source: str, said: str = "exchange bytes in"
) -> Iterator[float]:
    """Starts a newcomer in this namespace. Yields the seconds until its status contains `said`."""
    began, line = time.monotonic(), ["-m", "lab.studies.joining", "--newcomer", home, source]
    with guests.running(line, home, inside=where.inside):
        until(
            lambda: said in str(control.ask(home)), network.START_SECONDS, f"{said} at {home.name}"
        )
        yield time.monotonic() - began


def main() -> None:
    parser = command.parser("lab.studies.joining", __doc__)
    parser.add_argument("--joins", type=int, default=30, help="of each kind")
    parser.add_argument(
        "--newcomer", nargs=2, help="home and source of one of them; not for people"
    )
    options = parser.parse_args()
    if options.newcomer:
        newcomer(Path(options.newcomer[0]), options.newcomer[1])
        return
    with (
        TemporaryDirectory(prefix="joining-") as folder,
        Internet() as internet,
        ExitStack() as stack,
    ):
        work, result = Path(folder), dict[str, float]()
        doors, card = [internet.public(f"d{number}") for number in range(4)], str(work / "card")
        founded = Bootstrap(stack, work, [(door.address, door.inside) for door in doors])
        keep_cards(Path(card), founded.chain, time.time())
        places = [internet.public("n"), internet.behind_nat("b")]

        stack.enter_context(joined(internet.public("m"), work / "member", card))
        inviter = work / "inviter"
        stack.enter_context(joined(internet.behind_nat("c"), inviter, card, "/p2p-circuit/"))
        code = str(
            until(lambda: status.ask(inviter).get("invitation"), network.START_SECONDS, "a code")
        )
        for kind, source in (
            ("card", card),
            ("code of a member behind a NAT", code),
            ("card, 3 of 4 dark", card),
        ):
            for door in doors[1:] if "dark" in kind else ():
                door.run("iptables", "-A", *BLACKHOLE)
            took = list[float]()
            for number in range(options.joins):
                with joined(
                    places[number % 2], work / f"{kind[:4]}{len(result)}-{number}", source
                ) as seconds:
                    took.append(seconds)
            cut = quantiles(took, n=20)
            result |= {f"{kind}: p50": cut[9], f"{kind}: p95": cut[18], f"{kind}: most": max(took)}
            print(kind, *(f"{each:.2f}" for each in took), flush=True)
    command.show(["what", "seconds"], [[name, f"{value:.2f}"] for name, value in result.items()])
    command.finish(options, result)


if __name__ == "__main__":
    main()
