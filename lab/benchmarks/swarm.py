"""A round of a swarm of starters on this machine, beside genrl 0.3.0: seconds, and what they go to.

Same model, questions per node, completions per question, length limit and number of external groups; both train on all
local groups, and the learning rate is so small that the policy stays what it is. Ours is the simulation's own
machinery: all nodes in one process, connected in memory through encode, sign and admit. genrl is one process per node,
connected through hivemind on loopback, with a barrier each round, and it runs between two runs of ours. The ratio
grants genrl three favours: its fixed sleep of 1 s a round is subtracted, it takes one optimiser step a round as we do
(its default is one per two completions) and no gradient checkpointing (its default).

With --engine process ours are real nodes too, a process each with a network process and its daemon beside it, and what
the network takes of a round is measured: CPU of those processes over all, wall time of sharing over that of a round.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import psutil

from lab.benchmarks import command, common, genrl_side
from swarm_node import starters
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE, STARTER_TASKS
from swarm_node.extensions.simulation.arms import Arm, Cell, cell_config
from swarm_node.extensions.simulation.cell import run_cell
from swarm_node.extensions.simulation.engines.population import LivePopulation
from swarm_node.extensions.simulation.engines.process import ProcessLauncher
from swarm_node.extensions.simulation.engines.real_nodes import RealRun
from swarm_node.settings import GenerationConfig, ModelConfig, RoundConfig, SimulationConfig, TrainingConfig
from swarm_node.telemetry.events import CellRound

QUESTIONS, EXTERNAL_GROUPS, NEW_TOKENS = 9, 4, 16
SLEEP = 1.0  # seconds; HivemindBackend.all_gather_object sleeps as long in every round
CELL = Cell(Arm(QUESTIONS, EXTERNAL_GROUPS), seed=0)
PHASES = ("generate", "score", "exchange", "train")  # exchange: publish and collect
RATE = 1e-9  # both sides keep their policy, so that lengths and rewards stay comparable
NODE = Path(__file__).with_name("genrl_node.py")
FAVOURED = "genrl, favoured"
COMPETITORS: Mapping[str, Mapping[str, Any]] = {
    FAVOURED: {"minibatch_size": 10**6, "gradient_checkpointing": False},
    "genrl, its defaults": {"minibatch_size": 2, "gradient_checkpointing": True},
}


class GenrlFailed(Exception):
    """A genrl node ended early; the message is the end of what it said."""


def cpu_seconds() -> float:
    """Of this process and its descendants: the scoring process is a process of its own, and forks children that are
    gone."""
    me = psutil.Process()
    mine, theirs = me.cpu_times(), [process.cpu_times() for process in me.children(recursive=True)]
    return float(mine.user + mine.system + sum(t.user + t.system + t.children_user + t.children_system for t in theirs))


def configured(model: str, nodes: int, rounds: int, **more: Any) -> SimulationConfig:
    config = SimulationConfig(
        model=ModelConfig(name=model),
        generation=GenerationConfig(num_generations=common.GROUP_SIZE, max_completion_length=NEW_TOKENS),
        round=RoundConfig(questions=QUESTIONS),
        training=TrainingConfig(learning_rate=RATE),
        nodes=nodes,
        rounds=rounds,
        **more,
    )
    return cell_config(config, CELL)


def phases(seconds: Mapping[str, float]) -> dict[str, float]:
    """Of a round of ours, by `PHASES`."""
    exchange = seconds["publish"] + seconds["collect"]
    return {phase: exchange if phase == "exchange" else seconds[phase] for phase in PHASES}


def our_rounds(model: str, nodes: int, rounds: int) -> list[dict[str, Any]]:
    """Every measured round of our swarm; one more goes first to warm up."""
    config = configured(model, nodes, rounds + 1)
    population = LivePopulation(config)
    measured = []
    try:
        before = cpu_seconds()
        for done in run_cell(config, CELL, population):
            now = cpu_seconds()
            measured.append(
                {
                    "round": done.seconds["round"],
                    "cpu": now - before,
                    "seconds": phases(done.seconds),
                    "tokens": done.generated_tokens,
                    "received": done.external_groups,
                }
            )
            before = now
    finally:
        population.close()
    return measured[1:]


def real_rounds(model: str, nodes: int, rounds: int) -> list[dict[str, Any]]:
    """As `our_rounds`, by nodes that are processes. They go at their own pace, so a round is the mean over all."""
    warm = 40  # nodes have met: a handshake costs what ten calls do
    ahead = 100  # the fastest must not be through, and gone, before the slowest have been measured
    measured: list[CellRound] = []
    with tempfile.TemporaryDirectory() as folder:
        config = configured(model, nodes, warm + rounds + ahead, engine="process", out=Path(folder))
        with closing(RealRun(config, CELL, ProcessLauncher())) as run:
            for done in islice(run.rounds(), warm + rounds):
                if done.round == warm - 1:
                    start, before = time.monotonic(), cpu_by_part()
                elif done.round >= warm:
                    measured.append(done)
            wall, after = time.monotonic() - start, cpu_by_part()
    cpu = {part: (after[part] - before[part]) / rounds for part in after}
    spent = [phases(done.seconds) for done in measured]
    shares = [each["exchange"] / sum(each.values()) for each in spent]
    return [
        {
            "round": wall / rounds,
            "cpu": sum(cpu.values()),
            "seconds": {phase: fmean(each[phase] for each in spent) / nodes for phase in PHASES},
            "tokens": fmean(done.generated_tokens for done in measured),
            "received": fmean(done.external_groups for done in measured),
            "network_share": {"cpu": cpu["network"] / sum(cpu.values()), "wall": fmean(shares)},
        }
    ]


def cpu_by_part() -> dict[str, float]:
    """CPU seconds so far of our descendants: network processes and their daemons, and all others."""
    parts = {"network": 0.0, "rest": 0.0}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # ended meanwhile
            times = process.cpu_times()
            of_network = process.name() == "p2pd" or "swarm_node.network.process.daemon" in process.cmdline()
            spent = times.user + times.system
            if of_network:
                parts["network"] += spent
            else:  # scoring processes fork, and their children are gone when they are counted
                parts["rest"] += spent + times.children_user + times.children_system
    return parts


def genrl_rounds(python: str, model: str, nodes: int, rounds: int, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every measured round of genrl's swarm, averaged over its nodes, CPU and tokens summed."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        datasets = work / "datasets.yaml"
        datasets.write_text(json.dumps(composite()))  # JSON is YAML
        settings = {
            "parent": os.getpid(),
            "work": folder,
            "datasets": str(datasets),
            "model": str(starters.folder(model)) if model in starters.STARTERS else model,
            "nodes": nodes,
            "rounds": rounds + 1,
            "questions": QUESTIONS,
            "external_groups": EXTERNAL_GROUPS,
            "group_size": common.GROUP_SIZE,
            "new_tokens": NEW_TOKENS,
            "learning_rate": RATE,
            **options,
        }
        with launched(python, work, settings) as processes:
            wait_for(work, "ready", processes)
            (work / "go").touch()
            wait_for(work, "done", processes)
            (work / "stop").touch()
            per_node = [finished_rounds(work, rank, rounds) for rank in range(nodes)]
    return [merged(lines) for lines in zip(*per_node, strict=True)]


def composite() -> dict[str, Any]:
    """The tasks of the starters as a composite data set of reasoning-gym."""
    tasks = [task.split("/") for task in STARTER_TASKS]
    members = [{"name": name, "weight": 1, "config": dict(CATALOGUE[name][level])} for name, level in tasks]
    return {"size": 1000, "seed": 0, "datasets": members}


@contextmanager
def launched(python: str, work: Path, settings: Mapping[str, Any]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One process per node, gone afterwards with all its children."""
    processes = []
    try:
        for rank in range(settings["nodes"]):
            order = json.dumps({**settings, "rank": rank})
            with (work / f"log{rank}").open("wb") as log:
                processes.append(subprocess.Popen([python, str(NODE), order], stdout=log, stderr=log, cwd=work))
        yield processes
    finally:
        for process in processes:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


def wait_for(work: Path, sign: str, processes: Sequence[subprocess.Popen[bytes]], limit: float = 1800.0) -> None:
    """Until every node has left its file `sign<rank>`."""
    deadline = time.monotonic() + limit
    while not all((work / f"{sign}{rank}").exists() for rank in range(len(processes))):
        for rank, process in enumerate(processes):
            if process.poll() is not None or time.monotonic() > deadline:
                raise GenrlFailed(log_of(work, rank))
        time.sleep(0.1)


def finished_rounds(work: Path, rank: int, rounds: int) -> list[dict[str, Any]]:
    """What a node wrote about its rounds, without the first. genrl logs an exception and ends as if all were well."""
    path = work / f"rounds{rank}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    if len(lines) < rounds + 1:
        raise GenrlFailed(log_of(work, rank))
    return [json.loads(line) for line in lines[1:]]


def log_of(work: Path, rank: int) -> str:
    return f"node {rank}: " + (work / f"log{rank}").read_text(errors="replace").strip()[-3000:]


def merged(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One round of all nodes. They run side by side, so seconds are means, and tokens and CPU time are sums."""
    return {
        "round": fmean(line["round"] for line in lines),
        "cpu": sum(line["cpu"] for line in lines),
        "seconds": {phase: fmean(line["seconds"].get(phase, 0.0) for line in lines) for phase in PHASES},
        "tokens": sum(line["tokens"] for line in lines),
        "received": fmean(line["received"] for line in lines),
        "steps": fmean(line["steps"] for line in lines),
    }


def summed_up(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians over rounds, with the range of the whole round."""
    totals = [entry["round"] for entry in rounds]
    phases = {phase: median(entry["seconds"][phase] for entry in rounds) for phase in PHASES}
    return {
        "seconds_per_round": {"median": median(totals), "min": min(totals), "max": max(totals)},
        "phases": phases,
        "cpu_seconds_per_round": median(entry["cpu"] for entry in rounds),
        "generated_tokens_per_round": fmean(entry["tokens"] for entry in rounds),
        "external_groups_per_node": fmean(entry["received"] for entry in rounds),
        "rounds": len(rounds),
        **({"network_share": rounds[-1]["network_share"]} if "network_share" in rounds[-1] else {}),
    }


def line(name: str, side: Mapping[str, Any], reference: Mapping[str, Any] | None) -> list[str]:
    seconds = side["seconds_per_round"]
    numbers = [seconds["median"], *(side["phases"][phase] for phase in PHASES), side["cpu_seconds_per_round"]]
    counts = [f"{side['generated_tokens_per_round']:.0f}", f"{side['external_groups_per_node']:.1f}"]
    times = f"{seconds['median'] / reference['seconds_per_round']['median']:.1f}x" if reference else ""
    return [name, *(f"{number:.2f}" for number in numbers), *counts, times]


def measure(
    python: str | None,
    model: str,
    nodes: int,
    rounds: int,
    competitors: Mapping[str, Mapping[str, Any]],
    own: Callable[[str, int, int], list[dict[str, Any]]],
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Ours, and genrl's runs by name; ours before and after each of them."""
    ours = own(model, nodes, rounds)
    say("ours", ours)
    theirs = {}
    for name, options in competitors.items() if python else ():
        assert python is not None
        run = genrl_rounds(python, model, nodes, rounds, options)
        say(name, run)
        theirs[name] = summed_up(run)
        again = own(model, nodes, rounds)
        say("ours", again)
        ours += again
    return summed_up(ours), theirs


def say(name: str, rounds: Sequence[Mapping[str, Any]]) -> None:
    print(f"{name}, seconds a round: " + ", ".join(f"{entry['round']:.2f}" for entry in rounds), flush=True)


def parsed() -> argparse.Namespace:
    parser = common.parser("lab.benchmarks.swarm", __doc__)
    parser.add_argument("--nodes", type=int, help="nodes of either swarm (8)")
    parser.add_argument("--model", default="rare", help="starter, or a folder with a chat template")
    parser.add_argument("--engine", choices=["memory", "process"], default="memory", help="what our nodes are")
    genrl_side.add_python(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that genrl's processes are ended then, too
    common.settle()
    nodes = arguments.nodes or (2 if arguments.quick else 8)
    rounds = arguments.repetitions or (1 if arguments.quick else 5)
    if not arguments.genrl_python:
        print(f"genrl is not installed, so only our side runs. To get it: {genrl_side.RECIPE}")
    competitors = {FAVOURED: COMPETITORS[FAVOURED]} if arguments.quick else COMPETITORS
    own = {"memory": our_rounds, "process": real_rounds}[arguments.engine]
    ours, theirs = measure(arguments.genrl_python, arguments.model, nodes, rounds, competitors, own)
    header = ["seconds a round", "all", *PHASES, "CPU s", "tokens", "received", "times ours"]
    command.show(header, [line("ours", ours, None), *(line(name, side, ours) for name, side in theirs.items())])
    if "network_share" in ours:
        shares = {part: f"{100 * share:.1f} %" for part, share in ours["network_share"].items()}
        print(f"\nthe network's share of our round: {shares['cpu']} of the CPU time, {shares['wall']} of the wall time")
    result = {
        "ratio": ratio(ours, theirs),
        "ours": ours,
        "theirs": theirs,
        "settings": {
            "nodes": nodes,
            "engine": arguments.engine,
            "model": Path(arguments.model).name,
            "questions": QUESTIONS,
            "completions_per_question": common.GROUP_SIZE,
            "new_tokens": NEW_TOKENS,
            "local_groups": QUESTIONS,
            "external_groups": EXTERNAL_GROUPS,
            "cores": os.cpu_count(),
            "genrl_sleep_subtracted": SLEEP,
            **command.versions("torch", "transformers", "reasoning-gym"),
        },
    }
    command.finish(arguments, result)


def ratio(ours: Mapping[str, Any], theirs: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Seconds of the favoured genrl without its sleep over ours; None without genrl."""
    if not theirs:
        return None
    favoured = theirs[FAVOURED]["seconds_per_round"]["median"] - SLEEP
    return float(favoured / ours["seconds_per_round"]["median"])


if __name__ == "__main__":
    main()
