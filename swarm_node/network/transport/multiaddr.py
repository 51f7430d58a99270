"""Multiaddrs: the part of https://multiformats.io/multiaddr/ that this node dials or is shown, as
text and as bytes.

This is our own code because the library brings trio, a DNS resolver and five codec packages along,
and because addresses are text of others: a protocol that is not in the table below is refused
before it reaches a dialler.
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence

from protocol.identity import ID_HEADER, PUBLIC_KEY_BYTES, peer_id, public_key
from protocol.messages import PeerId
from swarm_node.common.errors import printable
from swarm_node.network import varint

MAX_CHARS = 256  # a relayed IPv6 address with both peer ids has about 200
MAX_NUMBER_BYTES = 5  # of codes and sizes

_CODES = {
    "ip4": 4, "tcp": 6, "ip6": 41, "dns": 53, "dns4": 54, "dns6": 55, "udp": 273,
    "p2p-circuit": 290, "p2p": 421, "quic-v1": 461,
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
_PORTS = ("tcp", "udp")
_SIZES = {"tcp": 2, "udp": 2, "ip4": 4, "ip6": 16}  # bytes; the others say their size themselves
_FLAGS = ("p2p-circuit", "quic-v1")  # without a value
_HOST_NAME = re.compile(r"(?=.{1,128}\Z)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")


def to_bytes(text: str) -> bytes:
    """Binary form. ValueError, with a text fit for a person, where this is no address that the node
    can dial.
    """
    return b"".join(varint.encode(_CODES[name]) + _pack(name, value) for name, value in parts(text))


def from_bytes(data: bytes) -> str:
    """Text form. ValueError for anything that is not in the table, or is cut off."""
    rest = memoryview(data)
    out = ""
    while rest:
        code, rest = varint.decode(rest, MAX_NUMBER_BYTES)
        if (name := _NAMES.get(code)) is None:
            raise ValueError(f"multiaddr protocol {code} is not known")
        if name in _FLAGS:
            out += f"/{name}"
            continue
        if (size := _SIZES.get(name)) is None:
            size, rest = varint.decode(rest, MAX_NUMBER_BYTES)
        if len(rest) < size:
            raise ValueError("multiaddr is cut off")
        out += f"/{name}/{_unpack(name, bytes(rest[:size]))}"
        rest = rest[size:]
    return out


def parts(text: str) -> list[tuple[str, str]]:
    """(protocol, value) pairs, each checked; ValueError as in `to_bytes`. A protocol without a
    value has "".
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"address of {len(text)} characters, more than {MAX_CHARS}")
    if not text.startswith("/"):
        raise ValueError(
            f"{text!r} is not a multiaddr: it must look like /ip4/1.2.3.4/tcp/31330/p2p/12D3KooW..."
        )
    words = iter(text[1:].split("/"))
    found = [(name, _value(name, words)) for name in words]
    for name, value in found:
        try:
            _pack(name, value)
        except ValueError as error:
            raise ValueError(f"{text!r}: {name}: {error}") from error
    return found


def split_peer(text: str) -> tuple[str, PeerId]:
    """Address and peer id of a full multiaddr (.../p2p/ID). ValueError where the id is missing or
    anything is wrong.
    """
    found = parts(text)
    if len(found) < 2 or found[-1][0] != "p2p":
        raise ValueError(f"{text!r} names no peer: it must end in /p2p/12D3KooW...")
    peer = PeerId(found[-1][1])
    return text[: -len(f"/p2p/{peer}")], peer


def one_peer(addresses: Sequence[str]) -> PeerId:
    """The peer that all these full multiaddrs name. ValueError where they do not."""
    peers = {split_peer(address)[1] for address in addresses}
    if len(peers) != 1:
        raise ValueError(f"{len(peers)} peers in one dial")
    return peers.pop()


def peer_bytes(peer: PeerId) -> bytes:
    """Binary form of a peer id. ValueError where it names no Ed25519 key."""
    return ID_HEADER + public_key(peer)


def peer_text(data: bytes) -> PeerId:
    """The peer of this binary id. ValueError for kinds of keys that no node of ours has."""
    if len(data) != len(ID_HEADER) + PUBLIC_KEY_BYTES or not data.startswith(ID_HEADER):
        raise ValueError("peer id does not name an Ed25519 key")
    peer = peer_id(data[len(ID_HEADER) :])
    public_key(peer)  # refuses weak keys
    return peer


def usefulness(address: str) -> int:
    """Order in which addresses are worth telling others: 0 public, 1 relayed, 2 local network, 3
    this machine only.
    """
    name, value = parts(address)[0]
    if "/p2p-circuit" in address:
        return 1
    if name not in ("ip4", "ip6"):
        return 0
    ip = ipaddress.ip_address(value)
    if ip.is_loopback or ip.is_link_local:
        return 3
    return 0 if ip.is_global else 2


def _value(name: str, words: Iterator[str]) -> str:
    if name not in _CODES:
        raise ValueError(
            f"multiaddr protocol {printable(name, 20)!r} is not supported; known: "
            f"{', '.join(_CODES)}"
        )
    if name in _FLAGS:
        return ""
    if not (value := next(words, "")):
        raise ValueError(f"multiaddr protocol {name} lacks its value")
    return value


def _pack(name: str, value: str) -> bytes:
    if name in _FLAGS:
        return b""
    if name in _PORTS:
        if not (value.isascii() and value.isdigit() and len(value) <= 5 and int(value) < 65536):
            raise ValueError("not a port")
        return int(value).to_bytes(2, "big")
    if name == "ip4":
        return _one_host(ipaddress.IPv4Address(value)).packed
    if name == "ip6":
        if "%" in value:
            raise ValueError("zones are not supported")
        return _one_host(ipaddress.IPv6Address(value)).packed
    if name == "p2p":
        data = peer_bytes(PeerId(value))
    else:
        if not _HOST_NAME.fullmatch(value):
            raise ValueError("not a host name")
        data = value.encode()
    return varint.prefixed(data)


def _unpack(name: str, data: bytes) -> str:
    if name in _PORTS:
        return str(int.from_bytes(data, "big"))
    if name == "ip4":
        return str(_one_host(ipaddress.IPv4Address(data)))
    if name == "ip6":
        return str(_one_host(ipaddress.IPv6Address(data)))
    if name == "p2p":
        return peer_text(data)
    host = data.decode("ascii", errors="replace")
    if not _HOST_NAME.fullmatch(host):
        raise ValueError("not a host name")
    return host


def _one_host(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """ValueError for a group: QUIC to one would have all of a network answer, and Python takes
    groups for global.
    """
    if ip.is_multicast:
        raise ValueError("a multicast group, not a host")
    return ip
