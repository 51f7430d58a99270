"""A mixed swarm over the real network: does each trainer train on groups of every other member? A
test runs it.

Four processes on loopback: a plain node, a node on py-libp2p, the TRL example, and a contributor,
which asks a real HTTP server that runs the starter `dense`. The first three train; a contributor
trains nothing. The run ends when each trainer has done its rounds and has trained on a group of
every other member. Nodes are quicker, so they do more rounds.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.studies import guests

PLAIN, LIBP2P, TRL, API = "plain node", "node on py-libp2p", "TRL script", "API contributor"
TRAINERS = (PLAIN, LIBP2P, TRL)
LOOK_SECONDS = 1.0
LIMIT_SECONDS = 1800.0
MORE = 40  # steps of the script for each round asked for: more than it will do


def measured(rounds: int, backend: str, model: str) -> dict[str, Any]:
    """Seconds from the start of the last process until all four had begun a round, and until each
    trainer had trained on each other member; and the trainers' rewards. `backend`: of the second
    node; `model`: of both nodes.
    """
    with TemporaryDirectory(prefix="mixed-swarm-") as name:
        homes = {who: Path(name, who.replace(" ", "-")) for who in (*TRAINERS, API)}
        with started(homes, MORE * rounds, backend, model) as script:
            all_there, first = watched(homes, script, rounds)
        curves = {who: guests.rewards(homes[who]) for who in TRAINERS}
    return {"rounds": rounds, "all_there": all_there, "first": first, "rewards": curves}


@contextmanager
def started(
    homes: Mapping[str, Path], steps: int, backend: str, model: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Starts all four. Yields the process of the script, which continues until it is terminated."""
    with ExitStack() as stack:
        api = stack.enter_context(serving("dense"))
        stack.enter_context(guests.running(guests.node(homes[PLAIN], model=model), homes[PLAIN]))
        peer = guests.address(homes[PLAIN])
        other = guests.node(
            homes[LIBP2P], "--network.backend", backend, "--peers", peer, model=model
        )
        stack.enter_context(guests.running(other, homes[LIBP2P]))
        asked = (
            "--api",
            api,
            "--model",
            "dense",
            "--max-tokens",
            16,
            "--round-seconds",
            2,
            "--questions",
            2,
        )
        where = ("--home", homes[API], "--peers", peer)
        contribute = [
            "-m",
            "swarm_node.commands.cli",
            "contribute",
            *asked,
            *where,
            *guests.tasks(),
            *guests.HERE,
        ]
        stack.enter_context(guests.running(contribute, homes[API]))
        environment = guests.of_script(steps, seed=0, external=2)
        yield stack.enter_context(
            guests.running([guests.EXAMPLE, homes[TRL], peer], homes[TRL], environment)
        )


@contextmanager
def serving(model: str) -> Iterator[str]:
    """The address of an HTTP server that runs a model of ours."""
    line = [sys.executable, "-m", "lab.benchmarks.served", model]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=guests.ROOT) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def watched(
    homes: Mapping[str, Path], script: "subprocess.Popen[bytes]", rounds: int
) -> tuple[float | None, dict[str, dict[str, float | None]]]:
    """Seconds until all had begun, and until each trainer first trained on a group of each other
    member. Ends as the module says, or after LIMIT_SECONDS. Raises RuntimeError if the script ends
    before.
    """
    began, all_there = time.monotonic(), None
    first: dict[str, dict[str, float | None]] = {
        who: dict.fromkeys(set(homes) - {who}) for who in TRAINERS
    }
    while (seconds := time.monotonic() - began) < LIMIT_SECONDS:
        if (
            all_there is None
            and (homes[API] / "rounds.json").exists()
            and all(guests.rewards(homes[who]) for who in TRAINERS)
        ):
            all_there = round(seconds, 1)
        for who in TRAINERS:
            known = guests.trained_on(homes[who])
            for other, when in first[who].items():
                if when is None and homes[other].exists() and guests.peer_id(homes[other]) in known:
                    first[who][other] = round(seconds, 1)
        met = all(when is not None for others in first.values() for when in others.values())
        if met and all(len(guests.rewards(homes[who])) >= rounds for who in TRAINERS):
            break
        if script.poll() is not None:
            raise RuntimeError(guests.log(homes[TRL]).read_text()[-2000:])
        time.sleep(LOOK_SECONDS)
    return all_there, first
