"""The user's lists of the peers, networks and tasks that this node deals with or blocks, from a
TOML file.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

from pydantic import BaseModel, ConfigDict

from protocol.messages import PeerId, Question
from swarm_node.common.parsing import parse_toml
from swarm_node.network.parties import PRIVATE, Range, outer

MAX_ENTRIES = 100_000  # of one list


class Access(BaseModel):
    """A `block_` list blocks its entries. An `allow_` list that has entries also blocks everything
    outside it.

    `private_networks` blocks nothing: it lets this node dial into networks, such as 10.0.0.0/8,
    otherwise refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    block_peers: frozenset[str] = frozenset()
    allow_peers: frozenset[str] = frozenset()
    block_networks: frozenset[Range] = frozenset()
    allow_networks: frozenset[Range] = frozenset()
    block_tasks: frozenset[str] = frozenset()  # dataset/config
    allow_tasks: frozenset[str] = frozenset()
    # Not public, but dialled when peers announce addresses there
    private_networks: frozenset[Range] = frozenset()

    def peer(self, peer: PeerId) -> bool:
        """Whether to deal with this peer."""
        return _passes(peer, self.block_peers, self.allow_peers)

    def address(self, address: str) -> bool:
        """Whether to deal with a peer at this multiaddr. Host names and unreadable addresses lie in
        no network.
        """
        if not (self.block_networks or self.allow_networks):
            return True
        found = _networks_of(address, self.block_networks | self.allow_networks)
        return not found & self.block_networks and (
            not self.allow_networks or bool(found & self.allow_networks)
        )

    def task(self, question: Question) -> bool:
        """Whether to take groups of this task."""
        return _passes(
            f"{question.dataset}/{question.config_id}", self.block_tasks, self.allow_tasks
        )


def parse(text: str) -> Access:
    """The lists in the text of a TOML file. ValueError, one line long, where the text makes no
    sense.
    """
    values = parse_toml(text)
    known = set(Access.model_fields)
    if unknown := sorted(set(values) - known):
        raise ValueError(f"{unknown[0]!r} is not a list; there are {', '.join(sorted(known))}")
    return Access(**{name: frozenset(_entries(name, value)) for name, value in values.items()})


def _entries(name: str, value: object) -> list[Any]:
    if (
        not isinstance(value, list)
        or not all(isinstance(each, str) for each in value)
        or len(value) > MAX_ENTRIES
    ):
        raise ValueError(f"{name} is not a list of texts")
    if not name.endswith("networks"):
        return value
    networks = [ip_network(each) for each in value]
    public = [each for each in networks if not _within(each, PRIVATE)]
    if name == "private_networks" and public:
        raise ValueError(f"{public[0]} in {name} is not a private network")
    return networks


def _within(network: Range, ranges: Iterable[Range]) -> bool:
    """Whether one of these ranges has all addresses of the network."""
    alike = (each for each in ranges if each.version == network.version)
    return any(network.subnet_of(each) for each in alike)  # type: ignore[arg-type]  # of one version


def _passes(name: str, blocked: frozenset[str], allowed: frozenset[str]) -> bool:
    return name not in blocked and (not allowed or name in allowed)


@lru_cache(maxsize=4096)
def _networks_of(address: str, networks: frozenset[Range]) -> frozenset[Range]:
    """The networks that contain the address of a multiaddr, or of the relay that it leads
    through.
    """
    try:
        ip = ip_address(address.split("/", 3)[2])
    except (IndexError, ValueError):
        return frozenset()
    spellings = {ip, outer(ip)}  # a listed IPv4 network also covers its IPv6 spellings (tunnels)
    return frozenset(each for each in networks if any(it in each for it in spellings))
