"""Follow every tutorial as a newcomer does, from an empty folder, and say how long each took.

    python -m lab.benchmarks.tutorials              pip in a fresh virtual environment
    python -m lab.benchmarks.tutorials --uvx UVX    `uvx textswarm` in place of `swarm-node`

The wheel is built from this checkout and installed with all it needs. Every command of every
tutorial runs as it stands on the page; pages.py says what is replaced. CPU seconds say what an idle
machine needs at most, on one core.
"""

import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from lab.benchmarks import pages
from lab.benchmarks.command import build_wheel, finish, parser, show, versions

ORDER = ("first_run", "two_machines", "own_model", "own_task")
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "SWARM_NODE_NETWORK__HOST": "127.0.0.1",  # both computers are this one
    "SWARM_NODE_NETWORK__MDNS": "false",
}


def main(argv: list[str] | None = None) -> None:
    made = parser("lab.benchmarks.tutorials", __doc__)
    made.add_argument(
        "--python", default=sys.executable, help="makes the virtual environment (this one)"
    )
    made.add_argument(
        "--only", nargs="+", choices=ORDER, help="these tutorials, behind the first, which installs"
    )
    made.add_argument("--uvx", type=Path, help="the uvx that gets everything, in place of pip")
    options = made.parse_args(argv)
    # Lab/__init__.py has set them, a newcomer has not
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="tutorials-") as name:
        wanted = options.only or ORDER
        result = (
            by_uvx(Path(name), options, wanted)
            if options.uvx
            else follow(Path(name), options.python, wanted)
        )
    show(
        ("tutorial", "commands", "seconds", "CPU s", "slowest command", "its CPU s"),
        [row(*each) for each in result.items()],
    )
    seconds = {
        page: {"wall": total(done, "seconds"), "cpu": total(done, "cpu")}
        for page, done in result.items()
    }
    load = os.getloadavg()[2]
    print(f"load of the last quarter of an hour: {load:.1f} on {os.cpu_count()} cores")
    finish(
        options,
        {"seconds": seconds, "load": load, "versions": versions("torch"), "cores": os.cpu_count()},
    )


def follow(
    folder: Path, python: str, wanted: "list[str] | tuple[str, ...]"
) -> dict[str, list[pages.Done]]:
    """The commands that were run, by tutorial. Those of the first tutorial that install are listed
    as `installing`.
    """
    environment = folder / "first" / ".venv"
    path = f"{environment / 'bin'}:{Path(python).parent}:{os.environ['PATH']}"
    model = folder / "model"
    reader = pages.Reader(
        folder, path, model, installs=True, wheel=build_wheel(folder), environment=QUIET
    )
    first = reader.follow(pages.TUTORIALS / "first_run.md")
    installed = [pages.left_out(each.command, False) == "installs" for each in first]
    print(f"{disk(environment) / 1e6:.0f} MB in the virtual environment", flush=True)
    result = {"installing": [each for each, new in zip(first, installed, strict=True) if new]}
    result["first_run"] = [each for each, new in zip(first, installed, strict=True) if not new]
    for name in (name for name in ORDER if name in wanted and name != "first_run"):
        own = pages.Reader(folder / name, path, model, environment=QUIET)
        result[name] = own.follow(pages.TUTORIALS / f"{name}.md")
        print(f"{name}: {total(result[name], 'seconds'):.0f} s", flush=True)
    return result


def by_uvx(folder: Path, options: Namespace, wanted: Sequence[str]) -> dict[str, list[pages.Done]]:
    """As `follow`, but nothing is installed first: uvx runs each `swarm-node` command from the
    wheel.
    """
    (folder / "bin").mkdir()
    (program := folder / "bin" / "swarm-node").write_text(
        f'#!/bin/sh\nexec {options.uvx.absolute()} textswarm "$@"\n'
    )
    program.chmod(0o755)
    links = [str(build_wheel(folder).parent), *os.environ.get("PIP_FIND_LINKS", "").split()]
    places = {
        "UV_PYTHON": options.python,
        "UV_FIND_LINKS": ",".join(links),
        "UV_CACHE_DIR": str(folder / "cache"),
    }
    path, result = f"{program.parent}:/usr/bin:/bin", {}
    for name in wanted:
        reader = pages.Reader(
            folder / name, path, folder / "model", environment={**QUIET, **places}
        )
        result[name] = reader.follow(pages.TUTORIALS / f"{name}.md")
        print(f"{name}: {total(result[name], 'seconds'):.0f} s", flush=True)
    return result


def disk(folder: Path) -> int:
    return sum(
        file.stat().st_size
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink()
    )


def total(done: list[pages.Done], what: Literal["seconds", "cpu"]) -> float:
    return sum(each.seconds if what == "seconds" else each.cpu for each in done)


def row(name: str, done: list[pages.Done]) -> tuple[str, ...]:
    slowest, commands = (
        max(done, key=lambda each: each.cpu),
        sum(each.command != pages.CTRL_C for each in done),
    )
    sums = f"{total(done, 'seconds'):.0f}", f"{total(done, 'cpu'):.0f}"
    return name, str(commands), *sums, slowest.command[:60], f"{slowest.cpu:.0f}"


if __name__ == "__main__":
    main()
