"""How a node finds others, and how much it does for them."""

from typing import Annotated, ClassVar

from pydantic import Field

from swarm_node.settings.sections import Alias, Listening, PlugIn, Positive, Program, Section, Text


class NetworkConfig(Section):
    """How to find others, and how much to do for them."""

    from_home: ClassVar[frozenset[str]] = frozenset({"suggested"})
    enabled: bool = True
    """Whether to connect to peers. Without it, local groups take the place of external ones."""
    backend: Annotated[str, PlugIn("backends")] = "hivemind"
    """Library that carries the messages: hivemind, or libp2p, which needs the extra of that name.
    Nodes of both kinds form one swarm.
    """
    p2pd: Program = ""
    """Another daemon for the backend hivemind, as the path of a statically linked p2pd that takes
    the same flags. Empty: the one that comes with hivemind.
    """
    peers: Annotated[tuple[Text, ...], Alias("--peers")] = ()
    """Bootstrap nodes as full multiaddrs, /ip4/1.2.3.4/tcp/31330/p2p/12D3KooW.... Empty: those
    known from last time.
    """
    suggested: tuple[Text, ...] = ()
    """Bootstrap nodes that somebody else names, as a card or a code does: dialled as rarely as
    addresses that peers announce, and in no private network that this machine is not in.
    """
    host: Listening = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on; 127.0.0.1 keeps the node to this machine."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port to listen on; 0 takes a free one."""
    announce: tuple[Text, ...] = ()
    """Addresses to announce, as multiaddrs, that the node cannot find out itself (a forwarded
    port).
    """
    exchange_seconds: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds between two exchanges of announcements with another peer."""
    relay: bool = True
    """Be reached through a relay if no connection can come in directly."""
    mdns: bool = True
    """Find nodes on the same local network without bootstrap nodes."""
    upload_limit: Positive = 1024
    """Kilobytes per second that all peers together may fetch from this node."""
