"""Arguments and output of every command of benchmarks, studies and fuzzing.

People read text and Markdown tables; with `--json` the last line is one JSON object with the key
`benchmark`, and with `ratio` where two sides are compared. Results of long runs are kept under
`runs/`, part by part, and not computed again. Nothing here needs torch, so that commands without
torch start at once.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from swarm_node.common.files import write_bytes

ROOT = Path(__file__).resolve().parents[2]
# Keys of findings, as harm by hostile input
BAD = ("broken", "failures", "forged", "paid", "unexplained", "wrong")


def parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """The argument parser of `python -m module`, with the module's docstring as help."""
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=doc, formatter_class=raw)
    made.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    made.set_defaults(benchmark=module.rpartition(".")[2])
    return made


def add_quick(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--quick",
        action="store_true",
        help="a minute's trial on tiny sizes; its figures mean nothing",
    )


def add_runs(made: argparse.ArgumentParser) -> None:
    default = Path("runs/studies") / made.get_default("benchmark")
    words = f"what is done is kept here, and not done again ({default})"
    made.add_argument("--runs", type=Path, default=default, metavar="FOLDER", help=words)


def add_out(made: argparse.ArgumentParser) -> None:
    """Adds `--out`, the folder of results to look at. They go into the documentation only on
    request.
    """
    words = "results and figures go here, such as docs/results/NAME (as --runs)"
    made.add_argument("--out", type=Path, metavar="FOLDER", help=words)


def out(options: argparse.Namespace) -> Path:
    folder: Path = options.out or options.runs
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def finish(options: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Prints the ratio, if sides were compared, and JSON, if requested. Exits with 1 if the result
    has a finding.
    """
    if "ratio" in result:
        ratio = result["ratio"]
        print(f"\nratio {'none' if ratio is None else f'{ratio:.2f}'}", flush=True)
    if options.json:
        print(json.dumps({"benchmark": options.benchmark, **result}), flush=True)
    if any(result.get(key) for key in BAD):
        raise SystemExit(1)


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns, the first to the left, others to the right."""
    widths = [
        max(3, *(len(line[column]) for line in [header, *lines])) for column in range(len(header))
    ]
    rules = [f":{'-' * (widths[0] - 1)}", *("-" * (width - 1) + ":" for width in widths[1:])]
    rows = [
        " | ".join(
            [
                first.ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)),
            ]
        )
        for first, *rest in [header, rules, *lines]
    ]
    return "\n".join(f"| {row} |" for row in rows)


def show(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    print(f"\n{table(header, lines)}", flush=True)


def kept(file: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The content of `file`. If the file is missing, `make` gives it now, and it is written whole
    or not at all.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, (json.dumps(make()) + "\n").encode())
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def installed(folder: Path) -> Path:
    """`swarm-node` in the new folder `bin`, as an installation writes it."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "swarm-node"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom swarm_node.commands.cli import main\n\n"
        'if __name__ == "__main__":\n    sys.exit(main())\n'
    )
    program.chmod(0o700)
    return program


def build_wheel(folder: Path) -> Path:
    """Builds the wheel from a copy of the checkout, so that no old build folder adds files to
    it.
    """
    copy = folder / "source"
    made = ("build", "runs", "*.egg-info", "__pycache__", ".*_cache")
    left_out = shutil.ignore_patterns(".git", ".venv*", ".lease", ".site", *made)
    shutil.copytree(ROOT, copy, ignore=left_out)
    line = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(copy),
    ]
    subprocess.run(line, check=True)
    (wheel,) = folder.glob("textswarm-*.whl")
    return wheel


def versions(*packages: str) -> dict[str, str]:
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
