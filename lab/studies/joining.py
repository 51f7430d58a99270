"""Joins by the cards of a peer, and how soon a new card is everywhere: network processes on loopback that do not train.

python -m lab.studies.joining --nodes 12 --joins 30 --json
"""

import time
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

from lab.benchmarks import command, network
from lab.benchmarks.waiting import until
from protocol.card import network_of, read, swarm_of
from protocol.identity import Identity
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process import control
from swarm_node.network.process.keeper import CARDS_FILE, keep_cards, load_cards
from swarm_node.network.process.messages import Rules
from swarm_node.network.trial import ask_for_cards
from swarm_node.settings import NetworkConfig


def main() -> None:
    parser = command.parser("lab.studies.joining", __doc__)
    parser.add_argument("--nodes", type=int, default=12, help="that stay: 170 MB each")
    parser.add_argument("--joins", type=int, default=30)
    options = parser.parse_args()
    chain, took, peers = network.cards(2, int(time.time())), list[float](), tuple[str, ...]()
    card = read(chain[0]).card  # type: ignore[union-attr]
    plain, rules = NetworkConfig(host="127.0.0.1", mdns=False), Rules(swarm=swarm_of(card), environments={})
    with TemporaryDirectory() as work, ExitStack() as stack:
        homes = [Path(work, str(number)) for number in range(options.nodes + options.joins)]
        for home in homes:
            home.mkdir()
            began, config = time.monotonic(), plain.model_copy(update={"peers": peers})
            cards = ask_for_cards(plain, peers, network_of(card), bool, lambda _: b"") if peers else chain[:1]
            keep_cards(home / CARDS_FILE, cards, time.time())
            node = RemoteNetwork(Identity.create(), home, config, rules, 0, dict, today=time.time)
            node.start()
            word = "exchange bytes in" if peers else "/ip4/"
            until(lambda: word in str(control.ask(home)), network.START_SECONDS, word)  # noqa: B023
            took.append(time.monotonic() - began)
            peers = peers or node.addresses[:1]
            stack.callback(node.close) if len(took) <= options.nodes else node.close()
        began, stay = time.monotonic(), homes[: options.nodes]
        keep_cards(stay[-1] / CARDS_FILE, chain, time.time())
        until(lambda: all(len(load_cards(home / CARDS_FILE)[0]) == 2 for home in stay), network.START_SECONDS, "a card")
        everywhere = time.monotonic() - began
    cut = quantiles(took[options.nodes :], n=20)
    result = {"join p50": cut[9], "join p95": cut[18], "new card everywhere": everywhere}
    command.show(["what", "seconds"], [[name, f"{value:.2f}"] for name, value in result.items()])
    command.finish(options, result)


if __name__ == "__main__":
    main()
