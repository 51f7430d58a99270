"""Four nodes of real models in a real network, each with tasks of one kind: who learns from whom?

    python -m lab.studies.real_swarm --minutes 30 --json [--models smollm2-135m smollm2-135m FOLDER rare]

Two nodes use p2pd and two py-libp2p. Before and after, each model answers held-out questions of all tasks, one sampled
answer each, with 95 % intervals. A round selects groups of others, and the next one trains on them beside local answers
to the same questions. So a round counts as offered where the one before scored an informative group; `trained` is the
share of those that trained on completions of others. Groups that were not used are counted by reason. The last model
may be a starter; then each node has a task of the other environment, since it takes groups of those that it asks.
Other options go to each node.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from lab.benchmarks import command
from lab.studies import guests
from swarm_node.commands.evaluate import wilson
from swarm_node.policy.named import is_starter

KINDS = {  # of one node each, from the families of basics
    "positions": ("second/few", "third/few", "last/few", "second_word/few"),
    "comparing": ("largest/few", "is_larger/few", "longer_word/few", "smaller/few"),
    "arithmetic": ("next/few", "plus_ten/few", "add_digits/few", "double/few"),
    "letters": ("swap/few", "first_letters/few", "capitals/few", "starts_with/few"),
}
STARTER = ("lcm/tiny", "gcd/tiny", "count_bits/tiny", "second/few")


def answered(model: str | Path, kinds: dict[str, Any], questions: int) -> dict[str, int]:
    """Right answers by kind."""
    if not questions:
        return dict.fromkeys(kinds, 0)
    asked = ["--tasks", *(task for tasks in kinds.values() for task in tasks), "--questions", str(questions), "--json"]
    line = [sys.executable, "-m", "swarm_node", "model", "eval", str(model), *asked]
    done = subprocess.run(line, stdout=subprocess.PIPE, check=True, cwd=command.ROOT)
    right = {each["task"]: round(each["accuracy"] * each["questions"]) for each in json.loads(done.stdout)["tasks"]}
    return {kind: sum(right[task] for task in tasks) for kind, tasks in kinds.items()}


def lived(homes: list[Path], kinds: dict[str, Any], options: Any, more: list[str]) -> None:
    """All four nodes at once, until the time is over."""
    with ExitStack() as stack:
        peers: list[str] = []
        for number, (home, tasks, model) in enumerate(zip(homes, kinds.values(), options.models, strict=True)):
            backend, shots = "libp2p" if number % 2 else "hivemind", 0 if is_starter(model) else 4
            which = ["--network.backend", backend, "--environment.shots", shots]
            flags = ["--seed", number, *which, *guests.HERE, *guests.tasks(tasks), *peers, *more]
            line = ["-m", "swarm_node", "run", "--home", home, "--model.name", model, "--threads", 1, *flags]
            stack.enter_context(guests.running(line, home))
            peers = peers or ["--peers", guests.address(home)]
        time.sleep(60 * options.minutes)


def shared(home: Path, authors: dict[str, str]) -> dict[str, Any]:
    """What a node heard, used and skipped, and what that cost."""
    reports = guests.reports(home)
    seconds = sum((Counter(report["seconds"]) for report in reports), Counter[str]())
    heard = [any(each.get("informative") for each in report["external_by_peer"].values()) for report in reports]
    offered = list(compress(reports[1:], heard))
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


def measured(root: Path, kinds: dict[str, Any], options: Any, more: list[str]) -> dict[str, Any]:
    homes, count = [root / name for name in kinds], options.questions
    before = {model: answered(model, kinds, count) for model in dict.fromkeys(options.models)}
    lived(homes, kinds, options, more)
    authors = {str(guests.peer_id(home)): home.name for home in homes}
    nodes = {}
    for home, model in zip(homes, options.models, strict=True):
        about = {"model": Path(model).name, "before": before[model], "after": answered(home, kinds, count)}
        nodes[home.name] = {**shared(home, authors), **about}
    return {"nodes": nodes, "questions": count, "minutes": options.minutes}


def cell(right: int, asked: int) -> str:
    low, high = wilson(right, asked) if asked else (0.0, 1.0)
    return f"{right / max(1, asked):.2f} ({low:.2f}-{high:.2f})"


def draw(nodes: dict[str, Any], path: Path) -> None:
    """Groups that each node trained on, by the node that wrote them."""
    figure = Figure(figsize=(6.8, 3.8), dpi=110, layout="tight")
    axes = figure.subplots()
    names = [f"{node['model']}\nasks {name}" for name, node in nodes.items()]
    counts = [[node["authors"].get(author, 0) for author in nodes] for node in nodes.values()]
    axes.imshow(counts, "Blues", aspect="auto", vmax=2 * max(1, *map(max, counts)))  # no cell hides its number
    for y, line in enumerate(counts):
        for x, count in enumerate(line):
            axes.text(x, y, str(count), ha="center", va="center")
    axes.set(xlabel="groups written by", ylabel="trained on by")
    axes.set(xticks=range(4), xticklabels=names, yticks=range(4), yticklabels=names)
    figure.savefig(path)


def main() -> None:
    parser = command.parser("lab.studies.real_swarm", __doc__)
    command.add_runs(parser)
    command.add_out(parser)
    parser.add_argument("--models", nargs=4, default=["smollm2-135m"] * 4, help="of the four nodes")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--questions", type=int, default=24, help="held-out ones of each task (24), or 0")
    options, more = parser.parse_known_args()
    kinds = KINDS
    if is_starter(options.models[-1]):
        kinds = {kind: (*tasks[:3], STARTER[0]) for kind, tasks in list(KINDS.items())[:-1]} | {"sums": STARTER}
    root = options.runs / f"{'-'.join(Path(model).name for model in options.models)}-{options.minutes:g}"
    found = command.kept(root / "real_swarm.json", partial(measured, root.resolve(), kinds, options, more))
    asked, lines = 4 * found["questions"], []
    for name, node in found["nodes"].items():
        own = [(node[when][name], asked) for when in ("before", "after")]
        others = [(sum(node[when].values()) - node[when][name], 3 * asked) for when in ("before", "after")]
        shares = f"{node['offered']}/{node['rounds']}", f"{node['trained']:.0%}", f"{node['scoring']:.0%}"
        lines.append([name, *(cell(*each) for each in (*own, *others)), *shares])
    heads = ("node asks", "own before", "own after", "others' before", "others' after", "offered", "trained", "scoring")
    command.show(heads, lines)
    draw(found["nodes"], command.out(options) / "real_swarm.png")
    command.finish(options, {**found, "settings": command.versions("torch", "transformers")})


if __name__ == "__main__":
    main()
