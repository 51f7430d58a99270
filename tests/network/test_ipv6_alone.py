"""A machine whose only addresses for others are those of IPv6: a network namespace, and real
daemons in it.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.commands import ENDS_SECONDS, command

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("unshare", "ip")) or os.getuid() != 0,
        reason="needs a network namespace of its own",
    ),
]
ADDRESS = "2001:db8::5"
# A pair of devices, one of which has the address; bootstrap runs until it has printed its own
SCRIPT = """
set -e
ip link set lo up
ip link add one type veth peer name other
ip addr add 2001:db8::5/64 dev one nodad
ip link set one up
ip link set other up
{without}
touch said  # tail may be there before what writes it
{start} >said 2>&1 &
tail -f -n +1 --pid=$! said | grep -m 1 '/ip6/::1/udp/' || true
kill %1
wait || true
"""


@pytest.mark.parametrize("without", ["", "ip addr del 127.0.0.1/8 dev lo"])
def test_a_node_of_a_machine_with_ipv6_alone_is_reached_there(without: str, tmp_path: Path) -> None:
    """Even without an IPv4 loopback: what tries relays listened there, and ended the start."""
    start = shlex.join(command("bootstrap", "--home", tmp_path / "home"))
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", SCRIPT.format(without=without, start=start)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
    )
    said = (tmp_path / "said").read_text()
    assert f"/ip6/{ADDRESS}/tcp/" in said and f"/ip6/{ADDRESS}/udp/" in said, done.stderr + said
    assert "/ip4/" not in said
