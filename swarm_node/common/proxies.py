"""Which proxy a request goes through. Every HTTP client of this package asks `proxy_for` (through
http.py), as the rules of the libraries differ and have faults for us: httpx raises ImportError for
a SOCKS proxy, and both httpx and urllib send requests for this very machine to the proxy, which
then asks itself.

The rules: a request to this machine goes through none. Else the variable of the address's scheme
counts (`http_proxy`, `https_proxy`), else `all_proxy`; in small letters before capitals, and an
empty one means none. `no_proxy` lists hosts, domains, addresses and networks that are asked
directly. Where no variable is set, macOS and Windows have settings of their own.
"""

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from swarm_node.common.errors import UserError, printable
from swarm_node.common.redaction import hidden

SOCKS = {"socks5", "socks5h"}
SCHEMES = {"http", "https"} | SOCKS
PORTS = {"http": 80, "https": 443}

IpAddress = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy, and the variable that names it."""

    url: str  # with user and password, where it has them
    variable: str

    def __str__(self) -> str:
        return f"the proxy {printable(hidden(self.url), 100)} of {self.variable}"

    def __repr__(self) -> str:
        return f"Proxy({self})"


def proxy_for(url: str, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy for a request to this address; None where it is asked directly. Raises UserError
    where a variable names a proxy that cannot be used.
    """
    address = urlsplit(url)
    host = (address.hostname or "").rstrip(".")
    if is_own(host) or _excepted(address, host, environment):
        return None
    for name in (f"{address.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            # A web server that runs this as a CGI script hands on a header of the request in it
            forged = variable == "HTTP_PROXY" and "REQUEST_METHOD" in environment
            if variable in environment and not forged:
                value = environment[variable].strip()
                return _checked(value, variable) if value else None
    return _of_system(address.scheme, host)


def through(url: str) -> str:
    """For a message about a request that failed: ` through the proxy ... of VARIABLE`, or "" where
    the request went directly.
    """
    try:
        proxy = proxy_for(url)
    except (UserError, ValueError):
        return ""
    return f" through {proxy}" if proxy else ""


def is_own(host: str) -> bool:
    """Whether this host is this machine: by loopback, by its name, or by an address of its own."""
    host = host.lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _numeric(host)
    if address is None:
        return host in _own_names()
    return address.is_loopback or address.is_unspecified or str(address) in _own_addresses()


def _numeric(host: str) -> IpAddress | None:
    """The address that this host is, in any way to write it (`127.1`); None for a name."""
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
        address = ip_address(str(found[0][4][0]).partition("%")[0])
    except (OSError, ValueError):  # UnicodeError is one: a label that is too long
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@cache
def _own_names() -> frozenset[str]:
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return frozenset({name, short, f"{short}.local"} if name else ())


@cache
def _own_addresses() -> frozenset[str]:
    import psutil  # here: only a request to a number needs it

    interfaces = psutil.net_if_addrs().values()
    return frozenset(
        address.address.partition("%")[0] for interface in interfaces for address in interface
    )


def _excepted(address: SplitResult, host: str, environment: Mapping[str, str]) -> bool:
    """Whether NO_PROXY lists this host."""
    listed = environment.get("no_proxy", environment.get("NO_PROXY", ""))
    number = _numeric(host)
    port = address.port or PORTS.get(address.scheme)
    for entry, entry_port in _entries(listed):
        if entry_port and entry_port != port:
            continue
        if entry == "*" or _covers(entry, host.lower(), number):
            return True
    return False


def _entries(listed: str) -> Iterator[tuple[str, int | None]]:
    """The entries of NO_PROXY, each with the port that it is for."""
    for word in listed.lower().replace(",", " ").split():
        entry = word.rpartition("://")[2]
        host, colon, port = entry.rpartition(":")
        # More than one colon: an address of IPv6, which has a port after brackets alone
        with_port = bool(colon) and port.isascii() and port.isdigit()
        if with_port and (":" not in host or host.endswith("]")):
            yield host.strip("[]"), int(port)
        else:
            yield entry.strip("[]"), None


def _covers(entry: str, host: str, number: IpAddress | None) -> bool:
    if number is not None:
        try:
            return number in ip_network(entry, strict=False)
        except ValueError:
            return False
    domain = entry.removeprefix("*").removeprefix(".").rstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _of_system(scheme: str, host: str) -> Proxy | None:
    """What the settings of macOS or Windows name."""
    if sys.platform not in ("darwin", "win32"):
        return None
    from urllib.request import getproxies, proxy_bypass  # here: slow to import

    proxies = getproxies()
    value = proxies.get(scheme) or proxies.get("all")
    return _checked(value, "the system's settings") if value and not proxy_bypass(host) else None


def _checked(value: str, variable: str) -> Proxy:
    """The proxy of this value. Raises UserError where no request can go through it."""
    url = value if "://" in value else f"http://{value}"
    shown = printable(hidden(url), 100)
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and parts.scheme in SCHEMES
    except ValueError:  # no port is above 65535
        whole = False
    if not whole:
        raise UserError(
            f"{variable} is {shown!r}, which is not an address of a proxy: write it as "
            f"http://HOST:PORT, or unset {variable}"
        )
    if parts.scheme in SOCKS and find_spec("socksio") is None:
        raise UserError(
            f"{variable} names a SOCKS proxy ({shown}), which needs one more package: "
            f"pip install 'httpx[socks]', or unset {variable}, or name the host in NO_PROXY"
        )
    return Proxy(url, variable)
