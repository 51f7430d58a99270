"""Four nodes of a real model in a real network, each with tasks of one kind: who learns from whom?

    python -m lab.studies.real_swarm --minutes 30 --json

Two nodes use p2pd and two py-libp2p. Before and after, the model answers held-out questions of all sixteen tasks, one
sampled answer each, with 95 % intervals. A round selects groups of others, and the next one trains on them beside local
answers to the same questions. So a round counts as offered where the one before scored an informative group; `trained`
is the share of those that trained on completions of others. Groups that were not used are counted by reason.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from lab.benchmarks import command
from lab.studies import guests
from swarm_node.commands.evaluate import wilson

KINDS = {  # of one node each, from the families of basics
    "positions": ("second/few", "third/few", "last/few", "second_word/few"),
    "comparing": ("largest/few", "is_larger/few", "longer_word/few", "smaller/few"),
    "arithmetic": ("next/few", "plus_ten/few", "add_digits/few", "double/few"),
    "letters": ("swap/few", "first_letters/few", "capitals/few", "starts_with/few"),
}
BACKENDS = ("hivemind", "libp2p")  # in turn
NAMES = list(KINDS)


def answered(model: str | Path, questions: int) -> dict[str, int]:
    """Right answers by kind."""
    asked = ["--tasks", *(task for tasks in KINDS.values() for task in tasks), "--questions", str(questions), "--json"]
    line = [sys.executable, "-m", "swarm_node", "model", "eval", str(model), *asked]
    done = subprocess.run(line, stdout=subprocess.PIPE, check=True, cwd=command.ROOT)
    right = {each["task"]: round(each["accuracy"] * each["questions"]) for each in json.loads(done.stdout)["tasks"]}
    return {kind: sum(right[task] for task in tasks) for kind, tasks in KINDS.items()}


def lived(homes: list[Path], model: str, minutes: float) -> None:
    """All four nodes at once, until the time is over."""
    with ExitStack() as stack:
        peers: list[str] = []
        for number, (home, tasks) in enumerate(zip(homes, KINDS.values(), strict=True)):
            flags = ["--seed", number, "--network.backend", BACKENDS[number % 2], *peers]
            line = ["-m", "swarm_node", "run", "--home", home, "--model.name", model, "--threads", 1, *guests.HERE]
            stack.enter_context(guests.running([*line, *guests.tasks(tasks), *flags], home))
            peers = peers or ["--peers", guests.address(home)]
        end = time.monotonic() + 60 * minutes
        while (left := end - time.monotonic()) > 0:
            print(f"{left / 60:.0f} min left, rounds {[len(guests.reports(home)) for home in homes]}", flush=True)
            time.sleep(min(60.0, left))


def shared(home: Path, authors: dict[str, str]) -> dict[str, Any]:
    """What a node heard, used and skipped, and what that cost."""
    reports = guests.reports(home)
    seconds = sum((Counter(report["seconds"]) for report in reports), Counter[str]())
    offered = [
        report
        for before, report in pairwise(reports)
        if any(each.get("informative") for each in before["external_by_peer"].values())
    ]
    trained: Counter[str] = Counter()
    for report in reports:
        trained.update({authors[peer]: each.get("trained", 0) for peer, each in report["external_by_peer"].items()})
    return {
        "rounds": len(reports),
        "offered": len(offered),
        "trained": sum(report["external_informative"] > 0 for report in offered) / max(1, len(offered)),
        "scoring": seconds["score"] / max(1e-9, seconds.total()),
        "skipped": dict(sum((Counter(report["skipped"]) for report in reports), Counter[str]())),
        "authors": dict(trained),
    }


def measured(root: Path, model: str, minutes: float, questions: int) -> dict[str, Any]:
    homes = [root / name for name in NAMES]
    before = answered(model, questions)
    lived(homes, model, minutes)
    authors = {str(guests.peer_id(home)): home.name for home in homes}
    nodes = {home.name: shared(home, authors) | {"after": answered(home, questions)} for home in homes}
    return {"before": before, "nodes": nodes, "questions": questions, "minutes": minutes}


def cell(right: int, asked: int) -> str:
    low, high = wilson(right, asked)
    return f"{right / asked:.2f} ({low:.2f}-{high:.2f})"


def draw(nodes: dict[str, Any], path: Path) -> None:
    """Groups that each node trained on, by the node that wrote them."""
    figure = Figure(figsize=(4.6, 3.8), dpi=110)
    axes = figure.subplots()
    counts = [[node["authors"].get(author, 0) for author in NAMES] for node in nodes.values()]
    axes.imshow(counts, cmap="Blues", vmax=2 * max(1, *map(max, counts)))  # no cell so dark that its number is lost
    for y, line in enumerate(counts):
        for x, count in enumerate(line):
            axes.text(x, y, str(count), ha="center", va="center")
    axes.set_xticks(range(len(NAMES)), [f"asks {name}" for name in NAMES], rotation=20)
    axes.set_yticks(range(len(NAMES)), [f"asks {name}" for name in NAMES])
    axes.set(xlabel="groups written by the node that", ylabel="trained on by the node that")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = command.parser("lab.studies.real_swarm", __doc__)
    command.add_runs(parser)
    command.add_out(parser)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--questions", type=int, default=24, help="held-out ones of each task (24)")
    options = parser.parse_args()
    root = options.runs / f"{options.model}-{options.minutes:g}"
    make = partial(measured, root.resolve(), options.model, options.minutes, options.questions)
    found = command.kept(root / "real_swarm.json", make)
    before, asked, lines = found["before"], len(KINDS[NAMES[0]]) * found["questions"], []
    for name, node in found["nodes"].items():
        others = [(before[kind], node["after"][kind]) for kind in NAMES if kind != name]
        old, new = map(sum, zip(*others, strict=True))
        accuracy = (before[name], asked), (node["after"][name], asked), (old, 3 * asked), (new, 3 * asked)
        shares = f"{node['offered']}/{node['rounds']}", f"{node['trained']:.0%}", f"{node['scoring']:.0%}"
        lines.append([name, *(cell(*each) for each in accuracy), *shares])
    heads = ("node asks", "own before", "own after", "others' before", "others' after", "offered", "trained", "scoring")
    command.show(heads, lines)
    draw(found["nodes"], command.out(options) / "real_swarm.png")
    command.finish(options, {**found, "settings": command.versions("torch", "transformers")})


if __name__ == "__main__":
    main()
