"""Follow README's two examples to their end, and write down what they printed.

    python -m lab.benchmarks.front_door --folder runs/front_door --write

The commands are read from README.md: those of "Quick start" and of "Your own task" that begin with
`swarm-node run` or `swarm-node ask`. Each example has a home of its own below the folder, which
stands for the user's home. So a run that was interrupted continues where it stopped, and one that
is done is not done again. `--write` puts what was found into docs/results/front_door.json, and what
the models answered into README. The commit, the versions and the machine are those of the home's
manifest. CPU seconds count all processes that a command started and waited for. They are kept in
the home, because a later call has nothing left to measure.
"""

import json
import os
import re
import resource
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.benchmarks import pages
from lab.benchmarks.command import finish, parser, show
from swarm_node.common.files import write_bytes
from swarm_node.telemetry.jsonlines import read_jsonlines

PROGRAM = Path(sys.executable).with_name("swarm-node")
README = pages.ROOT / "README.md"
RESULTS = pages.ROOT / "docs" / "results" / "front_door.json"
EXAMPLES = {"quick_start": "## Quick start", "own_task": "## Your own task"}
DEFAULT_HOME = ".swarm-node"
KEPT = "front_door.json"  # in the home: what its run took


def commands(heading: str) -> list[str]:
    """The commands of README below this heading that train a model or ask it."""
    section = README.read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    typed = [line.partition("   #")[0].strip() for block in blocks for line in pages.lines(block)]
    return [line for line in typed if re.match(r"swarm-node (run|ask)\b", line)]


def home_of(folder: Path, typed: str) -> Path:
    """The home that a command works on, where the user's home folder is `folder`."""
    named = re.search(r"--home ~/(\S+)", typed)
    return folder / (named[1] if named else DEFAULT_HOME)


def typed_by_a_user(folder: Path, typed: str) -> tuple[str, float]:
    """What a command printed, and the CPU seconds of its processes."""
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    variables = {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": cache, "PATH": path}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", typed],
        cwd=pages.ROOT,
        env=variables,
        check=True,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, round(used, 1)


def followed(folder: Path, heading: str) -> dict[str, Any]:
    """What the example below this heading came to."""
    run, *asks = commands(heading)
    home = home_of(folder, run)
    kept = home / KEPT
    if not kept.exists():
        _, seconds = typed_by_a_user(folder, run)
        write_bytes(kept, json.dumps({"cpu_seconds": seconds}).encode())
    answers = {ask: typed_by_a_user(folder, ask)[0].splitlines() for ask in asks}
    return {"command": run, **facts(home), **json.loads(kept.read_bytes()), "answers": answers}


def facts(home: Path) -> dict[str, Any]:
    """What the files of the home say: what ran where, and what held-out questions became."""
    manifest = json.loads((home / "manifest.json").read_bytes())
    checks = [event for event in read_jsonlines(home / "events.jsonl") if is_check(event)]
    last = checks[-1]
    return {
        "commit": manifest["commit"][:8],
        "date": manifest["started"][:10],
        "model": manifest["config"]["model"]["name"],
        "hardware": manifest["hardware"],
        "rounds": last["round"],
        "questions": last["questions"],
        "before": last["before"],
        "after": last["by_task"],
        "validations": {str(check["round"]): check["by_task"] for check in checks},
    }


def is_check(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == "Validated")


def rows(found: Mapping[str, Any]) -> Iterator[list[str]]:
    """A row for each task that was asked before and after training."""
    for task, before in found["before"].items():
        yield [task, f"{before:.0%}", f"{found['after'][task]:.0%}"]


def measure(options: Namespace) -> dict[str, Any]:
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return {name: followed(folder, heading) for name, heading in EXAMPLES.items()}


def with_answers(readme: str, found: Mapping[str, Any]) -> str:
    """README with what each example's `ask` commands printed, below its mark."""
    for name, example in found.items():
        printed = "\n".join(line for lines in example["answers"].values() for line in lines)
        mark = f"<!-- answers: {name} -->\n```text\n"
        head, _, rest = readme.partition(mark)
        readme = f"{head}{mark}{printed}\n```{rest.partition('```')[2]}"
    return readme


def main() -> None:
    made = parser("lab.benchmarks.front_door", __doc__)
    made.add_argument("--folder", type=Path, default=Path("runs/front_door"), metavar="FOLDER")
    made.add_argument("--write", action="store_true", help="into README and docs/results")
    options = made.parse_args()
    found = measure(options)
    for name, example in found.items():
        print(f"{name}: {example['command']}")
        show(["task", "before", f"after {example['rounds']} rounds"], [*rows(example)])
    if options.write:
        text = json.dumps(found, indent=1, ensure_ascii=False)
        write_bytes(RESULTS, f"{text}\n".encode())
        readme = with_answers(README.read_text(encoding="utf-8"), found)
        write_bytes(README, readme.encode())
    finish(options, found)


if __name__ == "__main__":
    main()
