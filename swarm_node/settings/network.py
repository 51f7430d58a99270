"""How a node finds others and exchanges groups with them."""

from typing import Annotated, Literal

import tyro
from pydantic import Field

from swarm_node.settings.sections import Count, Positive, Section


class NetworkConfig(Section):
    """How to find others, and how much to do for them."""

    enabled: bool = True
    """Whether to look for peers at all. Without, local groups take the place of external ones."""
    backend: Literal["hivemind", "libp2p"] = "hivemind"
    """Library that carries the messages; nodes of both kinds make one swarm. libp2p needs the extra of that name."""
    peers: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--peers"])] = ()
    """Bootstrap nodes as full multiaddrs, /ip4/1.2.3.4/tcp/31330/p2p/12D3KooW.... Empty: those known from
    last time."""
    host: str = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on; 127.0.0.1 keeps the node to this machine."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port to listen on; 0 takes a free one."""
    announce: tuple[str, ...] = ()
    """Addresses to tell others, as multiaddrs, where the node cannot see them itself (a forwarded port)."""
    exchange_seconds: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds between two exchanges of announcements with another peer."""
    quick_traffic: Positive = 6000
    """Kilobytes per minute, both ways, within which rounds of less than 3 seconds are announced and fetched for more
    often than every 3 seconds."""
    pull: Count = 0
    """External groups to fetch per round; 0 fetches as many as a round trains on."""
    serve_rounds: Positive = 3
    """Own rounds whose groups stay available to others."""
    relay: bool = True
    """Be reached through a relay where no connection comes in directly."""
    mdns: bool = True
    """Find nodes on the same local network without bootstrap nodes."""
    gossipsub: bool = False
    """Also spread announcements by GossipSub: quicker, for local networks of up to 64 nodes."""
    upload_limit: Positive = 1024
    """Kilobytes per second that others may fetch from this node, all together."""
    max_connections: Positive = 64
    """Peers connected at the same time."""
    max_inbound: Positive = 16
    """Requests of others answered at the same time; more are refused."""
