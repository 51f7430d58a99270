"""A learner beside a contributor, over the real network: a real HTTP server runs a starter, as an
API would.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.studies.guests import address
from tests import preloaded
from tests.commands import started
from tests.network.test_nodes import learned, running
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(1800)]

KEY = "sk-nobody-shall-see-this"
TASKS = ("--environment.tasks", "products/tiny,lcm/tiny,count_bits/tiny")
HERE = ("--network.host", "127.0.0.1", "--network.no-mdns", "--network.exchange-seconds", 2)


@contextmanager
def serving(model: str) -> Iterator[str]:
    command = [*preloaded.python(), "-m", "lab.benchmarks.served", model]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def looked_at(process: psutil.Process) -> dict[str, Any]:
    """What psutil says of a process; nothing once it has ended, as children do that scoring forks
    for each call.
    """
    try:
        found: dict[str, Any] = process.as_dict(
            ["cmdline", "environ", "memory_full_info", "status"]
        )
    except psutil.NoSuchProcess:
        return {}
    return found if found["status"] != psutil.STATUS_ZOMBIE and None not in found.values() else {}


def test_a_learner_at_the_rarest_setting_trains_on_a_contributor_that_is_small_and_keeps_its_key(
    tmp_path: Path,
) -> None:
    a, b = tmp_path / "learner", tmp_path / "contributor"
    few = (
        "--round.questions",
        4,
        "--round.local-groups",
        2,
        "--round.external-groups",
        4,
        "--threads",
        1,
    )
    with serving("dense") as api, running(a, "run", "--model.name", "rarest", *few, *TASKS, *HERE):
        arguments = ("--api", api, "--model", "dense", "--max-tokens", 16, "--round-seconds", 0.5)
        peers = ("--peers", address(a), "--home", b)
        b.mkdir()
        with (b / "output.log").open("wb") as output:
            environment = {**os.environ, "SWARM_NODE_API_KEY": KEY}
            process = started(
                "contribute", *arguments, *peers, *TASKS, *HERE, stdout=output, env=environment
            )
        try:
            until(lambda: learned(a) >= 2, 800, "learning from the contributor")
            first = psutil.Process(process.pid)
            looks = [
                look
                for each in [first, *first.children(recursive=True)]
                if (look := looked_at(each))
            ]
            assert not any(KEY in " ".join(look["cmdline"]) for look in looks)
            assert not any(KEY in look["environ"].values() for look in looks[1:])
            assert "torch" not in Path(f"/proc/{process.pid}/maps").read_text()
            assert looks[0]["memory_full_info"].rss < 80e6, looks[0]
            # PSS: forked children share memory
            shared = [look["memory_full_info"].pss / 1e6 for look in looks]
            assert sum(shared) < 350.0, shared
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
    for file in [*b.rglob("*"), *a.rglob("*.jsonl"), *a.rglob("*.log")]:
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert "others train on it" in (b / "output.log").read_text()
