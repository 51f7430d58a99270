"""clients/js, written from protocol/README.md and its vectors alone: it passes them, reads real
nodes, and teaches one.

python -m tests.network.test_second_implementation    # 100 groups read and 20 trained on, on both
                                                      backends
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab.studies.guests import address, reports
from tests.network.test_nodes import running
from tests.waiting import until

pytestmark = pytest.mark.network
CLIENT = Path(__file__).parents[2] / "clients" / "js"
PROGRAMS = CLIENT / "node_modules" / ".bin"
BACKENDS = ("hivemind", "libp2p")
SECONDS = 400.0  # half a minute where nothing else runs
# Mostly one answer is right, so the group is informative
TASK, ANSWERS = "gcd/easy", "1,2,3,4,5,6,7,8"


def node(*words: object) -> list[str]:
    """A command of the client's own Node.js."""
    return [str(PROGRAMS / "node"), *map(str, words)]


@pytest.fixture(scope="module")
def built() -> Path:
    return build()


def build() -> Path:
    """The compiled client."""
    if not PROGRAMS.exists():
        pytest.skip("npm ci --prefix clients/js")
    subprocess.run(node(PROGRAMS / "tsc", "-p", CLIENT), check=True)
    return CLIENT / "dist"


@pytest.mark.parametrize("name", ["vectors", "gate"])
def test_it_passes_every_vector_and_hardly_ever_dials_a_victim(built: Path, name: str) -> None:
    done = subprocess.run(
        node("--test", built / "test" / f"{name}.test.js"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_node_trains_on_groups_of_a_peer_that_read_its_own(
    built: Path, tmp_path: Path, backend: str
) -> None:
    read, trained = shared(built, tmp_path / "node", backend, 10, 2)
    assert read >= 10 and trained >= 2


def shared(built: Path, home: Path, backend: str, groups: int, taught: int) -> tuple[int, int]:
    """How many groups the client read, and on how many of its groups a node trained, once both are
    enough.
    """
    words = [
        "run",
        "--model.name",
        "rare",
        "--threads",
        1,
        "--environment.tasks",
        TASK,
        "--swarm",
        "mixed",
    ]
    words += ["--network.host", "127.0.0.1", "--network.no-mdns", "--network.exchange-seconds", 1]
    with (
        running(home, *words, "--network.backend", backend),
        (home / "client.log").open("w+") as log,
    ):
        asked = node(
            built / "src" / "cli.js",
            address(home),
            "--swarm",
            "mixed",
            "--serve",
            TASK,
            "--answers",
            ANSWERS,
        )
        asked += ["--listen", "/ip4/127.0.0.1/tcp/0", "--rounds", "2", "--seconds", str(SECONDS)]

        def found() -> tuple[int, int]:
            said = (home / "client.log").read_text(encoding="utf-8")
            assert client.poll() is None, said
            # Nobody else is in this swarm
            trained = sum(report["external_informative"] for report in reports(home))
            return said.count("\ngroup "), trained

        with subprocess.Popen(asked, stdout=log, stderr=subprocess.STDOUT) as client:
            until(
                lambda: found() >= (groups, 0) and found()[1] >= taught,
                SECONDS,
                "groups both ways",
                0.5,
            )
            result = found()
            client.terminate()
    return result


def main() -> None:
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as folder:
            read, trained = shared(build(), Path(folder, "node"), backend, 100, 20)
        sys.stdout.write(
            f"{backend}: {read} groups of a node read; it trained on {trained} of the client's\n"
        )


if __name__ == "__main__":
    main()
