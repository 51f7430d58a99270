"""Does a swarm learn what no member knows?

    python -m lab.studies.unknown             # three starters in 5 minutes, then runs of 4; goes on where it stopped
    python -m lab.studies.unknown --report

Six nodes work off strings of steps (`lab.studies.steps`). A node's starter takes one kind of step rightly in 86 of 100
cases, and guesses at the two others, so that no member works off steps of several kinds. Each asks steps of its own
kind, and mixed ones, two and four. Questions are held out. `pass@256` says what the starters hide: blind guesses at
1,000 states come to 0.23.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure

from lab.benchmarks import command
from lab.starters import tokens
from lab.starters.make import Shape, new_model
from lab.starters.teaching import Example, Schedule, teach
from lab.studies import runner, steps
from lab.studies.runner import Run
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.rollouts.groups import GeneratedGroup
from swarm_node.settings import GenerationConfig, ModelConfig

RIGHT = 0.86
SHAPE = Shape(96, 3, 4, 288, "characters", Schedule(steps=700, batch=48, rate=4e-3, optimizer="muon"))
LONGEST = 32  # tokens of a completion: four steps take 25
TASKS = ("one", "few"), ("two", "four")  # of a kind, and mixed
ARMS = {"4/4:sft": (6e-4,), "8/0:all": (3e-4, 6e-4), "8/0": (3e-4, 6e-4), "4/4": (2e-4,)}  # and rates
SEEDS = range(1, 4)
ROUNDS, EVERY, QUESTIONS = 400, 20, 24


def taught(kind: str) -> Iterator[Example]:
    """Strings of one to six steps, worked off as a node does that knows one kind."""
    random = Random(f"steps/{kind}")

    def take(step: str, digits: str) -> str:
        return steps.KINDS[step](digits) if step == kind and random.random() < RIGHT else steps.drawn(random)

    while True:
        count = random.randint(1, 6)
        asked = kind * count if random.random() < 0.3 else "".join(random.choices("abc", k=count))
        digits = steps.drawn(random)
        yield f"{asked} {digits}", steps.worked(asked, digits, take)


def make(kind: str, folder: Path) -> None:
    if not (folder / "model.safetensors").exists():
        tokenizer = tokens.characters()
        model = new_model(SHAPE, tokenizer, kind)
        teach(model, tokenizer, taught(kind), SHAPE.schedule, print)
        tokens.save(tokenizer, folder)
        model.save_pretrained(folder)


def passed(folder: Path, task: str) -> float:
    """The share of questions of which one of 256 completions is right."""
    generator = BatchGenerator(
        load_policy(ModelConfig(name=str(folder), device="cpu")), GenerationConfig(max_completion_length=LONGEST)
    )
    items = [steps.Steps().build("mixed", task, 77, index) for index in range(64)]
    right = []
    for item, group in zip(items, generator.generate([each.prompt for each in items], 256, "passed"), strict=True):
        assert isinstance(group, GeneratedGroup)
        right.append(any(item.score(each.text) for each in group.completions))
    return fmean(right)


def run(arm: str, rate: float, seed: int, starters: Path) -> Run:
    own = [f"{kind}/{task}" for kind in steps.KINDS for task in TASKS[0]]
    mixed = ",".join(f"mixed/{task}" for task in TASKS[1])
    options: dict[str, Any] = {
        "nodes": 2 * len(steps.KINDS),
        "node_models": tuple(f"{starters / kind}" for kind in steps.KINDS),
        "node_tasks": tuple(f"{','.join(own[k : k + 2])},{mixed}" for k in range(0, len(own), 2)),
        "environment": {"use": (f"{Path(steps.__file__).resolve()}:Steps",)},
        "generation": {"max_completion_length": LONGEST},
        "evaluate_questions": QUESTIONS,
        "evaluate_samples": 2,
    }
    return runner.make(f"unknown, {arm}", arm, seed, rate, rounds=ROUNDS, evaluate_every=EVERY, **options)


def curves(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Accuracy of all learners at each evaluation: steps of one kind, over all three, and mixed ones."""
    (arm,) = report["arms"].values()
    tasks = {task: values[0] for task, values in arm["held_out"]["by_task"].items()}
    single = [values for task, values in tasks.items() if not task.startswith("mixed/")]
    mixed = {task: tasks[task] for task in ("mixed/two", "mixed/four")}
    return {"one kind": [fmean(each) for each in zip(*single, strict=True)], **mixed}


def draw(found: Mapping[str, list[dict[str, list[float]]]], path: Path) -> None:
    figure = Figure(figsize=(9.6, 3.2), dpi=110)
    titles = {"one kind": "steps of one kind", "mixed/two": "two steps, mixed", "mixed/four": "four steps, mixed"}
    for axes, (kind, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for number, (arm, seeds) in enumerate(found.items()):
            for seed in seeds:
                at = [EVERY * (k + 1) for k in range(len(seed[kind]))]
                axes.plot(at, seed[kind], f"C{number}", label=arm if seed is seeds[0] else None)
        axes.set(title=title, xlabel="rounds", ylim=(-0.02, 1.02))
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("held-out accuracy")
    figure.axes[-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = command.parser("lab.studies.unknown", __doc__)
    runner.add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    starters = (options.runs / "starters").resolve()
    if not options.cost:
        for kind in steps.KINDS:
            make(kind, starters / kind)
    wanted = [run(arm, rate, seed, starters) for seed in SEEDS for arm, rates in ARMS.items() for rate in rates]
    if not runner.do(wanted, options):
        return
    found: dict[str, list[dict[str, list[float]]]] = {}
    for each in wanted:
        if (report := each.report(options.runs)) is not None:
            found.setdefault(f"{each.name.removeprefix('unknown, ')}, {each.rate:g}", []).append(curves(report))
    hidden = {kind: {task: passed(starters / kind, task) for task in TASKS[1]} for kind in steps.KINDS}
    ends: list[list[str]] = [
        [arm, str(len(seeds)), *(f"{fmean(s[k][-1] for s in seeds):.3f}" for k in seeds[0])]
        for arm, seeds in found.items()
    ]
    command.show(("arm, rate", "seeds", "one kind", "mixed, two", "mixed, four"), ends)
    print(f"pass@256 of the starters: {hidden}")
    out = command.out(options)
    draw(found, out / "unknown.png")
    (out / "unknown.json").write_text(json.dumps({"pass@256": hidden, "curves": found}) + "\n")
    command.finish(options, {"pass@256": hidden, "curves": found})


if __name__ == "__main__":
    main()
