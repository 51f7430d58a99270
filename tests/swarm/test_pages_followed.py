"""Every tutorial and how-to page is followed from its first command to its last:
`lab.benchmarks.pages` says how.
"""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from lab.benchmarks.pages import (
    CTRL_C,
    FIRST,
    HOW_TO,
    INSTALLS,
    NOT_RUN,
    ROOT,
    SECOND,
    TUTORIALS,
    Reader,
    Saved,
    Stopped,
    Typed,
    left_out,
    steps,
)
from swarm_node import starters
from tests import preloaded

OWN = HOW_TO / "found_a_swarm.md"  # for several people; docker/check_public_swarm.py plays them
PAGES = sorted({*TUTORIALS.glob("*.md"), *HOW_TO.glob("*.md")} - {OWN})
# `make test` follows the quick pages and those that a newcomer begins with. The commands of all
# pages are read by tests/house/test_documented_commands.py. Those of the other pages have tests of
# their own: contribute, exporting, questions and tasksets in test_how_to.py, two machines in
# tests/network/test_nodes.py, which joins two nodes by the address of a third; asynchronous and
# bootstrap nodes, the page, samplers, simulations and `model eval` where they belong.
SHORT = {"first_run", "live_view", "own_task", "plugins", "python", "swarm_manifest"}
NO_COMMANDS = {"hostile_peers"}  # they are about files
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    # The cache of models
    "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser()),
    "SWARM_NODE_NETWORK__EXCHANGE_SECONDS": "1",  # two quick nodes shall meet within a test
    "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
    "SWARM_NODE_NETWORK__MDNS": "false",
}


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """A reader with `swarm-node` and `python` of this interpreter, as in an activated environment.
    `python` alone gets a PYTHONPATH to this checkout: with PYTHONPATH a `swarm-node` command would
    have to import torch anew.
    """
    (tmp_path / "bin").mkdir()
    ours = f"{shlex.join(preloaded.python())} -m swarm_node"
    for name, program in (
        ("swarm-node", ours),
        ("python", f"env PYTHONPATH={ROOT} {sys.executable}"),
    ):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        script.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return Reader(tmp_path, path, starters.folder("rare"), shorter=True, environment=OFFLINE)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(2700)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page.stem in SHORT else [pytest.mark.long]) for page in PAGES],
    ids=[f"{page.parent.name}/{page.stem}" for page in PAGES],
)
def test_every_command_of_the_page_does_what_it_should(reader: Reader, page: Path) -> None:
    typed = [step.command for step in steps(page.read_text()) if isinstance(step, Typed)]
    done = [each for each in reader.follow(page) if each.command != CTRL_C]
    assert (typed or page.stem in NO_COMMANDS) and len(done) == sum(
        not left_out(command, False) for command in typed
    )


def test_what_is_left_out_is_on_a_page() -> None:
    typed = [
        step.command
        for page in PAGES
        for step in steps(page.read_text())
        if isinstance(step, Typed)
    ]
    for pattern in [*(pattern for pattern, _ in NOT_RUN), INSTALLS]:
        assert any(re.match(pattern, command) for command in typed), pattern


def test_a_page_is_read_as_its_reader_would() -> None:
    page = """Save this:

```toml title="a.toml"
x = 1
```

```bash
one  # why
two \\
    --more
```

```text
not typed
```

Press Ctrl-C.

```bash title="second computer"
three
```
"""
    expected = [
        Saved("a.toml", "x = 1\n"),
        Typed("one  # why", FIRST),
        Typed("two --more", FIRST),
        Stopped(),
    ]
    assert list(steps(page)) == [*expected, Typed("three", SECOND)]
