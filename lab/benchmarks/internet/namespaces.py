"""A small internet of network namespaces for what real networks do: NAT, partitions, lost relays.

Nothing in it has a route to the outside. Its addresses look public, because libp2p treats other
addresses as local. Needs root on Linux and iptables; `reason()` says what is missing.

    with Internet() as internet:
        relay = internet.public("relay")
        a = internet.behind_nat("a")
        process = a.popen([sys.executable, ...])
        internet.cut(a); internet.heal(a)
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

NETWORK = "45.33.10"  # /24 of the public side
NETWORK_6 = "2a01:4f8:c17:10:"  # /64 of its hosts that have IPv6 alone


def reason() -> str:
    """Why there can be no namespaces here; "" where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "iptables", "sysctl") if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = f"sn{os.getpid()}-probe"
    made = subprocess.run(
        ["ip", "netns", "add", probe], capture_output=True, text=True, check=False
    )
    if made.returncode:
        return f"no network namespaces: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return ""


class Namespace:
    def __init__(self, name: str, address: str, port: str) -> None:
        self.name = name  # as `ip netns` knows it
        self.address = address  # IPv4 of this host
        self.inside = ("ip", "netns", "exec", name)  # the words before a command that runs inside
        self.port = port  # interface that connects it, or the NAT in front of it, to the bridge

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """A process inside. The network is the only thing that differs from outside."""
        return subprocess.Popen([*self.inside, *command], text=True, **options)

    def received(self) -> int:
        """Bytes that came in, headers and all."""
        return int(_run(*self.inside, "cat", "/sys/class/net/eth0/statistics/rx_bytes"))

    def run(self, *command: str) -> None:
        _run(*self.inside, *command)


class Internet:
    """A bridge; public hosts on it, others behind a NAT of their own. Leaving it kills what runs
    inside.
    """

    def __init__(self) -> None:
        self._prefix = f"sn{os.getpid() % 100_000}"
        self._names: list[str] = []
        self._bridge = ""

    def __enter__(self) -> Self:
        try:
            self._bridge = self._add("i")
            _ip(self._bridge, "link", "add", "br0", "type", "bridge")
            _ip(self._bridge, "link", "set", "br0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            pids = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
            ).stdout
            for pid in pids.split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        self._names.clear()

    def public(self, name: str, ipv6: bool = False) -> Namespace:
        """A host with an address that everyone can reach. `ipv6`: it has no other than of IPv6."""
        return self._attach(name, ipv6)

    def behind_carrier(self, name: str) -> Namespace:
        """A host behind two NATs: that of a home, and that of a provider which gives homes no
        public address of their own (CGNAT).
        """
        provider = self._attach(f"{name}p")
        router = self._behind(provider, f"{name}r", "100.64")
        return self._behind(router, name, "192.168")

    def move(self, host: Namespace, number: int) -> None:
        """Gives a public host of IPv4 another address instead of its own, with this last number."""
        host.address = f"{NETWORK}.{number}"
        host.run("ip", "addr", "flush", "dev", "eth0")
        host.run("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")

    def behind_nat(self, name: str, symmetric: bool = False) -> Namespace:
        """A host in a private network; nothing comes in that it did not ask for.

        `symmetric`: the NAT takes another port for every flow, which defeats hole punching.
        """
        return self._behind(self._attach(f"{name}r"), name, "192.168", symmetric)

    def _behind(
        self, router: Namespace, name: str, inside: str, symmetric: bool = False
    ) -> Namespace:
        """A host in a network of its own behind this router. `inside`: how its addresses begin."""
        host = self._add(name)
        number = len(self._names)
        _cable(router.name, "lan", host, "eth0")
        _ip(router.name, "addr", "add", f"{inside}.{number}.1/24", "dev", "lan")
        _ip(router.name, "link", "set", "lan", "up")
        _ip(host, "addr", "add", f"{inside}.{number}.2/24", "dev", "eth0")
        _ip(host, "link", "set", "eth0", "up")
        _ip(host, "route", "add", "default", "via", f"{inside}.{number}.1")
        router.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        masquerade = ["MASQUERADE", "--random-fully"] if symmetric else ["MASQUERADE"]
        router.run("iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "eth0", "-j", *masquerade)
        for chain in ("FORWARD", "INPUT"):
            known = ["-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED"]
            router.run("iptables", "-A", chain, "-i", "eth0", *known, "-j", "ACCEPT")
            router.run("iptables", "-A", chain, "-i", "eth0", "-j", "DROP")
        return Namespace(host, f"{inside}.{number}.2", router.port)

    def cut(self, *hosts: Namespace) -> None:
        """Takes these hosts off the net: packets to and from them vanish, as when a cable is
        pulled.
        """
        for host in hosts:
            _ip(self._bridge, "link", "set", host.port, "nomaster")

    def split(self, *hosts: Namespace) -> None:
        """Makes a partition: these hosts reach each other, and nobody else."""
        if "br1" not in _ip(self._bridge, "-br", "link"):
            _ip(self._bridge, "link", "add", "br1", "type", "bridge")
            _ip(self._bridge, "link", "set", "br1", "up")
        for host in hosts:
            _ip(self._bridge, "link", "set", host.port, "master", "br1")

    def heal(self, *hosts: Namespace) -> None:
        """Puts these hosts back on the net, after `cut` or `split`."""
        for host in hosts:
            _ip(self._bridge, "link", "set", host.port, "master", "br0")

    def _add(self, name: str) -> str:
        full = f"{self._prefix}-{name}"
        _run("ip", "netns", "add", full)
        self._names.append(full)
        _ip(full, "link", "set", "lo", "up")
        return full

    def _attach(self, name: str, ipv6: bool = False) -> Namespace:
        full = self._add(name)
        number = len(self._names)
        address, port = f"{NETWORK}.{number}", f"p{number}"
        if ipv6:
            address = f"{NETWORK_6}:{number}"
        _cable(full, "eth0", self._bridge, port)
        _ip(self._bridge, "link", "set", port, "master", "br0")
        _ip(self._bridge, "link", "set", port, "up")
        if ipv6:  # at once: nobody else has it
            _ip(full, "addr", "add", f"{address}/64", "dev", "eth0", "nodad")
        else:
            _ip(full, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip(full, "link", "set", "eth0", "up")
        return Namespace(full, address, port)


def _cable(one: str, end: str, other: str, its_end: str) -> None:
    """A cable between two namespaces: interface `end` in `one`, `its_end` in `other`."""
    _run(*f"ip link add name {end} netns {one} type veth peer name {its_end} netns {other}".split())


def _ip(namespace: str, *arguments: str) -> str:
    return _run("ip", "-n", namespace, *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
