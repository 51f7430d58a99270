"""How a node finds others, and how much it does for them."""

from typing import Annotated, ClassVar

from pydantic import Field

from swarm_node.settings.sections import Alias, Listening, PlugIn, Positive, Program, Section, Text

# The libraries that ship: network/transport/libraries.py has their code
BACKENDS = ("hivemind", "libp2p")


class NetworkConfig(Section):
    """How to find other nodes, and how much to do for them."""

    from_home: ClassVar[frozenset[str]] = frozenset({"suggested"})
    enabled: bool = True
    """Whether to connect to peers. Without a network, local groups take the place of external ones.
    """
    backend: Annotated[str, PlugIn("backends", besides=BACKENDS)] = "hivemind"
    """Library that carries the messages: hivemind, or libp2p, which needs the extra of that name.
    Nodes with different backends can be in one swarm.
    """
    p2pd: Program = ""
    """Path of another daemon for the backend hivemind: a statically linked p2pd that takes the same
    flags. Empty: the daemon that comes with hivemind.
    """
    peers: Annotated[tuple[Text, ...], Alias("--peers")] = ()
    """Bootstrap nodes as full multiaddrs, such as /ip4/1.2.3.4/tcp/31330/p2p/12D3KooW.... Empty:
    the peers that the node remembers from last time.
    """
    suggested: tuple[Text, ...] = ()
    """Bootstrap nodes that somebody else suggests, as a swarm manifest or an invite code does. They
    are dialled as rarely as addresses that peers announce, and never in a private network that this
    machine is not part of.
    """
    host: Listening = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on. With 127.0.0.1 only this machine can reach the node."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port to listen on. 0: any free port."""
    announce: tuple[Text, ...] = ()
    """More addresses to announce, as multiaddrs: those that the node cannot find out by itself,
    such as that of a forwarded port.
    """
    exchange_seconds: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds between two exchanges of announcements, each with another peer."""
    relay: bool = True
    """Let others reach this node through a relay if they cannot connect to it directly."""
    mdns: bool = True
    """Find nodes on the same local network without bootstrap nodes."""
    upload_limit: Positive = 1024
    """Kilobytes per second that all peers together can download from this node."""
