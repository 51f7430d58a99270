"""Does a node that is given nothing find tasks that its model can learn, and does it continue
finding them?

    nice -n 10 python -m lab.studies.band --json          # SmolLM2-135M, 100 rounds
    python -m lab.studies.band --rounds 6 --marks 2 4 --questions 4 --runs FOLDER --json

It starts `swarm-node run` without a file and without tasks, alone, and asks:

- how much CPU time of all its processes passes from the start until the first step of the
  optimiser;
- after the first of `--marks`, when the list is full: how many of the chosen tasks are answered
  correctly in 2 to 90 % of `--questions` fresh (held-out) questions each;
- in the rounds from the second mark on: which share of the groups is informative, and whether the
  tasks that were practised at that mark are answered better at the end than they were then, again
  on held-out questions;
- what the node's own validation found, for the same tasks before and after.

The node runs in legs, one up to each mark, so that its checkpoint can be evaluated there. What is
done is kept below `--runs` and not done again: an interrupted leg continues at its last checkpoint.
Other work on the machine changes the wall clock, which is not told, and hardly the CPU seconds.
"""

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from lab.benchmarks.command import add_runs, finish, parser, show
from swarm_node.commands.evaluate import wilson
from swarm_node.common.files import write_bytes
from swarm_node.rollouts.curriculum import LEARNED, LEAST
from swarm_node.telemetry.jsonlines import read_jsonlines

PROGRAM = Path(sys.executable).with_name("swarm-node")
ROUNDS, MARKS, QUESTIONS = 100, (10, 90), 64
EXAMINED = 10  # chosen tasks that are asked fresh questions
LOOK = 0.5  # seconds between two looks at a node that starts


class Run:
    """The node of the study, and what was found so far."""

    def __init__(self, folder: Path, questions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.home, self._file, self._questions = folder / "home", folder / "band.json", questions
        self.found: dict[str, Any] = (
            json.loads(self._file.read_bytes()) if self._file.exists() else {}
        )

    def keep(self, name: str, value: Any) -> None:
        """Keeps what was found, so that it is not measured again."""
        self.found[name] = value
        write_bytes(self._file, json.dumps(self.found, indent=1).encode())

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of this kind, the last one of each round."""
        path = self.home / "events.jsonl"
        events = read_jsonlines(path) if path.exists() else []
        of_round = {number_of(event): event for event in events if event["event"] == kind}
        return [of_round[number] for number in sorted(of_round)]

    def done(self) -> int:
        """Rounds that the newest checkpoint holds."""
        kept = [int(path.parent.name) for path in self.home.glob("checkpoints/*/state.json")]
        return max(kept, default=0)

    def train(self, rounds: int) -> None:
        """Runs the node until so many rounds are done in all."""
        if self.done() >= rounds:
            return
        command = [str(PROGRAM), "run", "--home", str(self.home), "--max-rounds", str(rounds)]
        options = ["--network.no-enabled", "--threads", "1"]
        with (self.home.parent / "run.log").open("a") as log:
            node = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=one_thread())
            if "first_step_cpu_seconds" not in self.found and not self.done():
                self.keep("first_step_cpu_seconds", self._first_step(node))
            if node.wait():
                raise SystemExit(f"the node failed: see {log.name}")

    def _first_step(self, node: "subprocess.Popen[bytes]") -> float:
        """CPU seconds of the node and its children when its first step is written down."""
        used = 0.0
        while node.poll() is None:
            used = max(used, cpu_seconds(node.pid))
            if any(
                event["report"]["step"]["optimizer_steps"] for event in self.events("RoundDone")
            ):
                break
            time.sleep(LOOK)
        return round(used, 1)

    def accuracy(self, name: str, tasks: Sequence[str]) -> dict[str, Any]:
        """What the newest checkpoint answers to fresh questions of these tasks, kept as `name`."""
        if name not in self.found:
            options = ["--questions", str(self._questions), "--shots", "4", "--json"]
            done = subprocess.run(
                [PROGRAM, "model", "eval", self.home, "--tasks", *tasks, *options],
                check=True,
                stdout=subprocess.PIPE,
                env=one_thread(),
            )
            rows = json.loads(done.stdout.splitlines()[-1])["tasks"]
            self.keep(name, {row["task"]: [row["accuracy"], row["questions"]] for row in rows})
        kept: dict[str, Any] = self.found[name]
        return kept

    def practised(self, mark: int) -> list[str]:
        """The tasks that were practised after so many rounds."""
        told = [event for event in self.events("Chosen") if event["round"] <= mark]
        return list(told[-1]["practised"]) if told else []


def number_of(event: Mapping[str, Any]) -> int:
    """The round of an event."""
    return int(event["report"]["round"] if "report" in event else event.get("round", 0))


def one_thread() -> dict[str, str]:
    """Variables of a process that shares the machine with others."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and of all its children, those that have ended included."""
    try:
        node = psutil.Process(pid)
        family = [node, *node.children(recursive=True)]
        times = [each.cpu_times() for each in family]
    except psutil.Error:
        return 0.0
    ended = times[0].children_user + times[0].children_system
    return float(sum(each.user + each.system for each in times) + ended)


def mean_of(answers: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The mean accuracy over all questions, and its 95 % interval."""
    total = sum(int(questions) for _, questions in answers.values())
    right = sum(share * questions for share, questions in answers.values())
    low, high = wilson(right, total)
    mean = right / max(1, total)
    return {"mean": round(mean, 4), "low": round(low, 4), "high": round(high, 4), "of": total}


def informative(rounds: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean share of informative groups in these rounds."""
    shares = [event["report"]["informative_share"] for event in rounds]
    known = [share for share in shares if share is not None]
    return round(fmean(known), 3) if known else None


def measure(options: Namespace) -> dict[str, Any]:
    run = Run(options.runs, options.questions)
    first, second = options.marks
    run.train(first)
    chosen = run.practised(first)[:EXAMINED]
    fresh = run.accuracy(f"after {first}", chosen)
    run.train(second)
    late = run.practised(second)
    then = run.accuracy(f"after {second}", late)
    run.train(options.rounds)
    end = run.accuracy(f"after {options.rounds}", late)
    in_band = [task for task, (share, _) in fresh.items() if LEAST <= share <= LEARNED]
    by_ten = {
        f"{start}-{start + 9}": informative(
            [each for each in run.events("RoundDone") if start <= number_of(each) < start + 10]
        )
        for start in range(0, options.rounds, 10)
    }
    last = [each for each in run.events("RoundDone") if second <= number_of(each) < options.rounds]
    checks = run.events("Validated")
    return {
        "rounds": run.done(),
        "first_step_cpu_seconds": run.found.get("first_step_cpu_seconds"),
        "chosen": {task: share for task, (share, _) in fresh.items()},
        "chosen_in_band": len(in_band),
        "informative_last": informative(last),
        "informative_by_ten_rounds": by_ten,
        "late_then": mean_of(then),
        "late_end": mean_of(end),
        "late_tasks": {task: [then[task][0], end[task][0]] for task in late},
        "validation": validations(checks),
        "chosen_at_end": run.events("Chosen")[-1],
    }


def validations(checks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns for each validation the mean over its tasks, before anything was trained on them and
    then.
    """
    return [
        {
            "round": check["round"],
            "tasks": len(check["by_task"]),
            "before": round(fmean(check["before"].values()), 3),
            "then": round(fmean(check["by_task"].values()), 3),
        }
        for check in checks
        if check["by_task"]
    ]


def main() -> None:
    made = parser("lab.studies.band", __doc__)
    add_runs(made)
    made.add_argument("--rounds", type=int, default=ROUNDS)
    made.add_argument("--marks", type=int, nargs=2, default=MARKS, metavar="ROUND")
    made.add_argument("--questions", type=int, default=QUESTIONS, help="fresh ones of each task")
    options = made.parse_args()
    found = measure(options)
    rows = [[task, f"{share:.0%}"] for task, share in found["chosen"].items()]
    show([f"chosen after {options.marks[0]} rounds", "right"], rows)
    finish(options, found)


if __name__ == "__main__":
    main()
