"""The recipe for the firewall, in network namespaces: it stops floods by /24 and lets others in."""

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lab.benchmarks.internet.namespaces import Internet, Namespace, reason

RECIPE = Path(__file__).parents[2] / "deploy" / "nftables" / "swarm-node.nft"
MISSING = reason() or ("" if shutil.which("nft") else "not installed: nft")
pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]

LISTEN = """
    import socket
    listener = socket.create_server(("0.0.0.0", 31330), backlog=4096)
    taken = []
    print("ready", flush=True)
    while True:
        taken.append(listener.accept())
"""
CONNECT = """
    import errno, json, select, socket, sys
    count, seconds, source = int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    poll, waiting = select.poll(), {}
    for _ in range(count):
        end = socket.socket()
        end.setblocking(False)
        end.bind((source, 0))
        end.connect_ex((sys.argv[1], 31330))
        waiting[end.fileno()] = end
        poll.register(end, select.POLLOUT)
    import time
    until, open_ = time.monotonic() + seconds, []
    while waiting and (left := until - time.monotonic()) > 0:
        for number, _ in poll.poll(1000 * left):
            poll.unregister(number)
            end = waiting.pop(number)
            if not end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                open_.append(end)
    print(json.dumps(len(open_)), flush=True)
    sys.stdin.readline()
"""


def script(where: Namespace, text: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    return where.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_flood_from_one_network_gets_64_connections_and_a_newcomer_from_another_gets_in(
    internet: Internet,
) -> None:
    node, flooder = internet.public("n"), internet.public("f")
    newcomer = "45.33.11.9"
    flooder.run("ip", "addr", "add", f"{newcomer}/24", "dev", "eth0")
    node.run("ip", "route", "add", "45.33.11.0/24", "dev", "eth0")
    node.run("nft", "-f", str(RECIPE))
    node.run("nft", "-f", str(RECIPE))  # again: it replaces itself
    assert said(script(node, LISTEN)) == "ready"
    flood = script(flooder, CONNECT, node.address, "500", "3", flooder.address)
    assert 0 < json.loads(said(flood)) <= 64
    honest = script(flooder, CONNECT, node.address, "1", "60", newcomer)
    assert json.loads(said(honest)) == 1
