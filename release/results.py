"""Each page of docs/results with its commits, and how much of the code behind its commands has
changed since.

    # ends with 1 where a page has no command, or no commit with its date
    .venv/bin/python release/results.py

The code behind `python -m lab.NAME` is that module and everything of ours that it imports; all that
ships, where it starts processes. A command "at commit" is kept no longer: what it measured can only
be repeated there.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PAGES = sorted(
    page for page in (ROOT / "docs" / "results").glob("*.md") if page.name != "README.md"
)
COMMAND = re.compile(
    r"python -m [\w.]+|python3? tests/\S+|pytest tests/\S+|swarm-node \w+|make [a-z]+"
)
MODULE = re.compile(r"python -m ((?:lab|swarm_node)\.[\w.]+)(?![^\n]*at\s+commit)")
DATED = re.compile(r"\b([0-9a-f]{7,8}),\s(\d{4}-\d\d-\d\d)")


def git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True)  # noqa: S607


@cache
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("lab", "swarm_node", "protocol", cache_dir=None)


def code(module: str) -> set[str]:
    """The files behind a command, as paths from the top."""
    if module not in imports().modules:
        return set()
    files = {file_of(name) for name in (module, *imports().find_upstream_modules(module))}
    if any(
        "subprocess" in (ROOT / file).read_text(encoding="utf-8")
        for file in files
        if file.startswith("lab/")
    ):
        files |= {file_of(name) for name in imports().modules if not name.startswith("lab")}
    return files


def file_of(module: str) -> str:
    place = ROOT.joinpath(*module.split("."))
    return str(
        (place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).relative_to(ROOT)
    )


@cache
def changed(commit: str) -> dict[str, int]:
    """Lines that were added to each file, or taken away, since then. A file that moved is a new
    one.
    """
    rows = [
        line.split("\t")
        for line in git("diff", "--numstat", "--no-renames", commit, "HEAD").splitlines()
    ]
    return {name: int(more) + int(less) for more, less, name in rows if more != "-"}


def state(page: Path) -> tuple[str, list[str]]:
    """What is to be said of a page, and what it lacks."""
    text = page.read_text(encoding="utf-8")
    dated = DATED.findall(text)
    lacks = [] if COMMAND.search(text) else ["a command"]
    lacks += [] if dated else ["a commit with its date, as `1234abc, 2026-01-31`"]
    lacks += [
        f"{commit} is of another day"
        for commit, day in dated
        if git("show", "-s", "--format=%cs", commit).strip() != day
    ]
    modules = set(MODULE.findall(text))
    files = {file for module in modules for file in code(module)}
    if not dated or not files:
        return "no command of lab is kept: repeat it at its commit", lacks
    commit, day = max(dated, key=lambda each: each[1])
    lines = sum(changed(commit).get(file, 0) for file in files)
    own = sum(changed(commit).get(file, 0) for file in files if file.startswith("lab/"))
    if not lines:
        return f"as measured at {commit} ({day})", lacks
    size = sum(len((ROOT / file).read_bytes().splitlines()) for file in files)
    return f"changed since {commit} ({day}): {lines} of {size} lines, {own} of them in lab", lacks


def main() -> int:
    missing = 0
    for page in PAGES:
        said, lacks = state(page)
        missing += len(lacks)
        sys.stdout.write(
            "".join(
                f"{page.name}: {words}\n"
                for words in [said, *(f"MISSING {lack}" for lack in lacks)]
            )
        )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
