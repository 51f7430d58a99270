"""The limit of open files is raised at the start, in a process of its own."""

import subprocess
import sys

PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
from swarm_node.network.process.confined import raise_limit
print(raise_limit(1024))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def limited(hard: int) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(hard)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_limit_is_raised_as_far_as_wanted() -> None:
    assert limited(4096) == ["", "1024"]


def test_where_that_cannot_be_the_user_is_told() -> None:
    said, limit = limited(512)
    assert "only 512 open files" in said
    assert limit == "512"
