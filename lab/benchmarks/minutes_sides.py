"""The two sides of `lab.benchmarks.minutes`: this node's round and TRL's GRPOTrainer on one task.

How it works. `measured` makes one run in a process of its own. Both sides get the same model, the
same questions in the same order, the same scorer, and the same held-out questions, which our
generator answers for both with the same random numbers. A `Course` stands beside either side. It
counts what the process and its children spend, without evaluations, and ends the run at the level
or at a limit. What is spent before the first update is told apart, as the start.

Only light modules are imported here, because the imports of torch, transformers and TRL belong to
the start of a side.
"""

import ctypes
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from protocol.messages import PeerId, Question, Round
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import rewards_of_texts
from swarm_node.policy import named
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.interfaces import Environment
from swarm_node.settings import NodeConfig

OURS, TRL, BASE = "ours", "TRL", "base"
STOP = "\n"  # ends a completion on both sides
STREAM = "held-out"  # of random numbers, for every evaluation of both sides
NEWLINE = "Ċ"  # how byte-level tokenizers write a line break
MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Work:
    """What both sides are given."""

    model: str
    tasks: tuple[str, ...]
    prompts: int = 4  # of an update
    group: int = 8  # completions of a prompt
    new_tokens: int = 8  # of a completion, at most
    rank: int = 16  # of the adapters
    held_out: int = 48  # questions
    every: int = 2  # updates between two evaluations
    gain: float = 0.2  # of held-out reward, at which a run ends
    most_seconds: float = 200.0  # of training, after which a run ends without it
    most_updates: int = 80
    gpu: bool = False
    vllm: bool = False  # TRL generates by a vLLM engine in its own process


@dataclass(frozen=True, slots=True)
class Task:
    """One run. `base`: the held-out reward before the first update."""

    side: str
    rate: float
    seed: int
    work: Work
    base: float = 0.0


class Spent(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float

    def since(self, earlier: "Spent") -> "Spent":
        """What was spent between two readings."""
        return Spent(self.wall - earlier.wall, self.cpu - earlier.cpu)


def spent_now() -> Spent:
    """The time now, and the CPU seconds of this process and of all children, living or ended."""
    me = psutil.Process()
    cpu = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            cpu += sum(process.cpu_times()[:4])  # its own, and of children that it has waited for
    return Spent(time.time(), cpu)


def is_abandoned() -> bool:
    """Whether the process that started this one has ended: nobody keeps what it measures."""
    parent = parent_process()
    return parent is not None and not parent.is_alive()


class Peak:
    """The most memory of this process while it trained, in MiB."""

    def __init__(self, gpu: bool) -> None:
        self._gpu = gpu
        self.mebibytes = 0.0

    def note(self) -> None:
        """Takes into account what was held until now."""
        if self._gpu:
            import torch

            now = torch.cuda.max_memory_reserved() / MEBIBYTE
        else:
            lines = Path("/proc/self/status").read_text().splitlines()
            line = next(line for line in lines if line.startswith("VmHWM:"))
            now = int(line.split()[1]) / 1024
        self.mebibytes = max(self.mebibytes, now)

    def forget(self) -> None:
        """Leaves out what was held since the last `note`."""
        gc.collect()
        if self._gpu:
            import torch

            torch.cuda.reset_peak_memory_stats()
        else:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")


class Course:
    """What one run spent until each evaluation, and what the evaluation said."""

    def __init__(
        self,
        task: Task,
        evaluate: Callable[[], float],
        now: Callable[[], Spent] = spent_now,
        peak: Peak | None = None,
        abandoned: Callable[[], bool] = is_abandoned,
    ) -> None:
        self._task, self._evaluate, self._now = task, evaluate, now
        self._abandoned = abandoned
        self._peak = peak or Peak(task.work.gpu)
        self._updates = self._tokens = 0
        self.points: list[dict[str, float]] = []
        # Moves forward by what evaluations take, so that they are not counted
        self._begun = now()

    def begin(self) -> None:
        """The first update begins now."""
        self._begun = self._now()

    def after_update(self, tokens: int) -> bool:
        """Whether the run ends with this update, which generated so many tokens. Evaluates where it
        is due. Raises SystemExit where nobody waits for the run any more.
        """
        if self._abandoned():
            raise SystemExit("the command was ended: nobody keeps this run")
        work = self._task.work
        self._updates += 1
        self._tokens += tokens
        before = self._now()
        spent = before.since(self._begun)
        seconds = spent.wall if work.gpu else spent.cpu
        is_last = seconds >= work.most_seconds or self._updates >= work.most_updates
        if self._updates % work.every and not is_last:
            return False
        self._peak.note()
        reward = self._evaluate()
        point = {"updates": self._updates, "tokens": self._tokens, "reward": reward}
        self.points.append({**point, "wall": spent.wall, "cpu": spent.cpu})
        line = f"{spent.cpu:.1f} CPU s, {self._tokens} tokens, reward {reward:.3f}"
        print(f"{self._task.side}, update {self._updates}: {line}", flush=True)
        self._peak.forget()
        pause = self._now().since(before)
        self._begun = Spent(self._begun.wall + pause.wall, self._begun.cpu + pause.cpu)
        return is_last or reward >= self._task.base + work.gain

    def result(self, start: Spent, phases: Mapping[str, float]) -> dict[str, Any]:
        """The run as it is kept. `phases`: CPU seconds of its parts."""
        return {
            "work": asdict(self._task.work),
            "start": start._asdict(),
            "points": self.points,
            "peak_mebibytes": self._peak.mebibytes,
            "phases": dict(phases),
        }


def measured(task: Task) -> dict[str, Any]:
    """Makes a run in this process, which does nothing else."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    sides = {OURS: ours, TRL: theirs, BASE: untrained}
    try:
        return sides[task.side](task)
    except SystemExit as ended:
        sys.stderr.write(f"{ended}\n")
        os._exit(1)  # else the worker of a pool waits for more work


def config_of(task: Task, folder: str) -> NodeConfig:
    """The options of a lone node for this run. The KL penalty is off, as TRL has it."""
    work = task.work
    precision = {} if work.gpu else {"dtype": "float32"}
    sections: dict[str, Any] = {
        "model": {
            "name": work.model,
            "lora_rank": work.rank,
            "template_arguments": "none",
            "device": "cuda" if work.gpu else "cpu",
            **precision,
        },
        "generation": {
            "num_generations": work.group,
            "max_completion_length": work.new_tokens,
            "stop": (STOP,),
        },
        "round": {
            "questions": work.prompts,
            "local_groups": work.prompts,
            "external_groups": 0,
        },
        "training": {"learning_rate": task.rate or 1e-4, "beta": 0.0},
        "environment": {"tasks": work.tasks},
        "network": {"enabled": False},
    }
    return NodeConfig.model_validate({"home": folder, "seed": task.seed, "threads": 1, **sections})


def author(task: Task) -> PeerId:
    """Whose questions a run asks: those of a seed are the same on both sides."""
    return PeerId(f"minutes{task.seed}")


def ours(task: Task) -> dict[str, Any]:
    """A run of this node, alone."""
    from swarm_node.network.in_memory import Alone
    from swarm_node.node.learner import build_learner
    from swarm_node.policy.tried import Tried

    phases: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(task, folder)
        environment = build_environment(config, prepare=True)
        try:
            learner = build_learner(
                config,
                author(task),
                environment,
                Alone(),
                resume=None,
                tried=Tried(),
                external=None,
            )
            node = replace(learner.node, clock=time.process_time)
            course = Course(
                task, _evaluation(learner.policy, environment, config, task.work.held_out)
            )
            start = _start()
            course.begin()
            for number in count():
                report = node.run_round(Round(number))
                for phase, seconds in report.seconds.items():
                    phases[phase] = phases.get(phase, 0.0) + seconds
                if course.after_update(report.generated_tokens):
                    break
        finally:
            environment.close()
    return course.result(start, phases)


def untrained(task: Task) -> dict[str, Any]:
    """The held-out reward before the first update."""
    from swarm_node.policy.loading import configured_policy

    with tempfile.TemporaryDirectory() as folder:
        config = config_of(task, folder)
        environment = build_environment(config, prepare=True)
        try:
            evaluate = _evaluation(
                configured_policy(config), environment, config, task.work.held_out
            )
            return {"work": asdict(task.work), "reward": evaluate()}
        finally:
            environment.close()


def theirs(task: Task) -> dict[str, Any]:
    """A run of TRL's GRPOTrainer."""
    from swarm_node.policy.device import keep_freed

    keep_freed(plenty=True)  # as a node does where memory is plentiful: it makes TRL faster, too
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(task, folder)
        environment = build_environment(config, prepare=True)
        try:
            return _by_trl(task, config, environment, folder)
        finally:
            environment.close()


def _by_trl(
    task: Task, config: NodeConfig, environment: Environment, folder: str
) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        PrinterCallback,
        TrainerCallback,
    )
    from transformers.utils import logging
    from trl import GRPOConfig, GRPOTrainer

    from swarm_node.policy.policy import Frame, Policy

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    work = task.work
    model_folder = named.source(work.model)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    # TRL ends a completion at any of these; a stop string it does not know
    model.generation_config.eos_token_id = ends_of(tokenizer)
    phases = {"generate": 0.0, "score": 0.0}
    tokens = [0]

    class Timed(GRPOTrainer):  # type: ignore[misc]
        def _generate_single_turn(self, *arguments: Any, **more: Any) -> Any:
            began = time.process_time()
            generated = super()._generate_single_turn(*arguments, **more)
            phases["generate"] += time.process_time() - began
            return generated

    class AfterUpdate(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
            if course.after_update(tokens[0]):
                control.should_training_stop = True
            tokens[0] = 0

    def reward(
        completions: Sequence[str],
        completion_ids: Sequence[Sequence[int]],
        address: Sequence[str],
        **_: Any,
    ) -> list[float]:
        began = time.process_time()
        tokens[0] += sum(map(len, completion_ids))
        questions = [Question.model_validate_json(text) for text in address]
        rewards = paid(environment, questions, completions, work.group)
        phases["score"] += time.process_time() - began
        return rewards

    trainer = Timed(
        model=model,
        reward_funcs=reward,
        args=GRPOConfig(output_dir=folder, **recipe(task)),
        train_dataset=Dataset.from_list(rows_of(task, environment)),
        processing_class=tokenizer,
        callbacks=[AfterUpdate()],
        peft_config=LoraConfig(
            r=work.rank,
            lora_alpha=2 * work.rank,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )
    trainer.remove_callback(PrinterCallback)
    products = torch.bfloat16 if work.gpu else None
    policy = Policy(trainer.model, tokenizer, trainer.model.device, products, work.model)
    policy.take(Frame(stop=STOP, chat=False))
    course = Course(task, _evaluation(policy, environment, config, task.work.held_out))
    start = _start()
    course.begin()
    trainer.train()
    spent = course.points[-1]["cpu"]
    return course.result(start, {**phases, "train": spent - sum(phases.values())})


def recipe(task: Task) -> dict[str, Any]:
    """The fields of GRPOConfig that are not left at their defaults, which are loss_type dapo, beta
    0, one pass over a batch, and a norm of the gradient of 1. One micro-batch holds all
    completions, and blocks are not computed again in the backward pass: both make it faster.
    """
    work = task.work
    fields: dict[str, Any] = {
        "per_device_train_batch_size": work.prompts * work.group,
        "num_generations": work.group,
        "max_completion_length": work.new_tokens,
        "learning_rate": task.rate,
        "lr_scheduler_type": "constant",  # nobody knows beforehand how long a run is
        "max_steps": work.most_updates,
        "shuffle_dataset": False,
        "gradient_checkpointing": False,
        "use_cpu": not work.gpu,
        "bf16": work.gpu,
        "seed": task.seed,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }
    if work.vllm:
        fields |= {"use_vllm": True, "vllm_mode": "colocate", "generation_kwargs": {"stop": [STOP]}}
    return fields


def ends_of(tokenizer: Any) -> list[int]:
    """The tokens that end a completion: the end of the text, and all with a line break."""
    breaks = {
        token for text, token in tokenizer.get_vocab().items() if STOP in text or NEWLINE in text
    }
    return sorted({tokenizer.eos_token_id, *breaks})


def rows_of(task: Task, environment: Environment) -> list[dict[str, str]]:
    """The questions of a run with their addresses, in the order in which our node asks them."""
    rows: list[dict[str, str]] = []
    for number in range(task.work.most_updates):
        questions = environment.sample(author(task), Round(number), task.work.prompts)
        for question, prompt in zip(questions, environment.prompts(questions), strict=True):
            assert isinstance(prompt, str), prompt
            rows.append({"prompt": prompt, "address": question.model_dump_json()})
    return rows


def paid(
    environment: Environment, questions: Sequence[Question], texts: Sequence[str], group: int
) -> list[float]:
    """The rewards of completions by our scorer. A completion ends before its first line break. The
    completions of a question stand together, and are `group` many.
    """
    answers = [text.partition(STOP)[0] for text in texts]
    asked = [
        (questions[first], answers[first : first + group])
        for first in range(0, len(answers), group)
    ]
    rewards: list[float] = []
    for (_, members), scored in zip(asked, rewards_of_texts(environment, asked), strict=True):
        rewards += [0.0] * len(members) if isinstance(scored, Skipped) else scored
    return rewards


def _evaluation(
    policy: Any, environment: Environment, config: NodeConfig, questions: int
) -> Callable[[], float]:
    """The mean reward of one sampled answer to each held-out question. Questions and random numbers
    are the same each time, on both sides.
    """
    from swarm_node.generation.generator import BatchGenerator
    from swarm_node.node.evaluation import answer

    generator = BatchGenerator(policy, config.generation)

    def evaluate() -> float:
        asked = environment.sample(EVALUATION, Round(0), questions)
        attempts = answer(generator, environment, asked, STREAM)
        scores = [attempt.score for attempt in attempts if attempt.score is not None]
        assert len(scores) == len(asked), [attempt.failed for attempt in attempts]
        return sum(scores) / len(scores)

    return evaluate


def _start() -> Spent:
    """What this process and its children have spent since it was started."""
    now = spent_now()
    return Spent(now.wall - psutil.Process().create_time(), now.cpu)
