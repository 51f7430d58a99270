"""Where to listen: from a host and a port of the configuration to multiaddrs, checked before a library is started."""

import errno
import ipaddress
import socket
from collections.abc import Sequence

import psutil

from swarm_node.common.errors import UserError
from swarm_node.network.transport.multiaddr import parts


def listen_addresses(host: str, port: int) -> list[str]:
    """TCP and QUIC on the same port (0: a free one of each). UserError where `host` is no IP address."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError as error:
        raise UserError(f"--network.host: {host!r} is not an IP address; 0.0.0.0 listens on all of them") from error
    base = f"/ip{ip.version}/{ip}"
    return [f"{base}/tcp/{port}", f"{base}/udp/{port}/quic-v1"]


def on_interfaces(address: str) -> list[str]:
    """What others can dial where this is bound: the wildcard address stands for those of all interfaces."""
    (network, host), *_ = parts(address)
    if not ipaddress.ip_address(host).is_unspecified:
        return [address]
    family = socket.AF_INET if network == "ip4" else socket.AF_INET6
    found = (entry for entries in psutil.net_if_addrs().values() for entry in entries if entry.family == family)
    hosts = [entry.address for entry in found if "%" not in entry.address]  # no link-local IPv6: needs an interface
    return [address.replace(f"/{network}/{host}/", f"/{network}/{it}/", 1) for it in hosts]


def check_free(listen: Sequence[str]) -> None:
    """UserError where a port cannot be had: p2pd would share it with its owner, or go on with only one transport."""
    for address in listen:
        (network, host), (transport, port), *_ = parts(address)
        family = socket.AF_INET if network == "ip4" else socket.AF_INET6
        kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
        try:
            with socket.socket(family, kind) as probe:
                if transport == "tcp":  # else connections of an earlier run that are still closing would count
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, int(port)))
        except OSError as error:
            raise UserError(_reason(error.errno, host, port, transport)) from error


def _reason(number: int | None, host: str, port: str, transport: str) -> str:
    where = f"{host} port {port}/{transport}"
    if number == errno.EADDRINUSE:
        return f"cannot listen on {where}: another program uses it; stop that, or choose another --network.port"
    if number == errno.EACCES:
        return f"cannot listen on {where}: not allowed; choose a --network.port above 1023"
    if number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"cannot listen on {where}: this machine has no such address; use --network.host 0.0.0.0"
    return f"cannot listen on {where}: {errno.errorcode.get(number or 0, 'error')}"
