"""A rank of `lab.benchmarks.parallel`: generates and updates with the others, and writes what it took. Not for
people."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from safetensors.torch import save_file

from lab.benchmarks import common
from lab.benchmarks.resident import resident
from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.extensions.gpus.ranks import JoinedRanks, join
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.policy import Policy
from swarm_node.policy.ranks import ALONE, Ranks, count_ranks
from swarm_node.rollouts.groups import GeneratedGroup, ScoredGroup
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer

QUESTION = Question(environment="reasoning_gym", version="0", dataset="gcd", config_id="easy", seed=1, index=0)


def scored(prompts: list[str], generated: list[Any]) -> list[ScoredGroup]:
    """With rewards that do not depend on the text; every third group comes from a peer."""
    groups = []
    for index, (prompt, group) in enumerate(zip(prompts, generated, strict=True)):
        assert isinstance(group, GeneratedGroup)
        rewards = tuple(float((i + index) % 3 == 0) for i in range(len(group.completions)))
        asked = QUESTION.model_copy(update={"index": index})
        plain = RolloutGroup(author=PeerId("benchmark"), round=Round(0), question=asked, completions=group.completions)
        groups.append(ScoredGroup(plain, prompt, rewards, () if index % 3 == 0 else group.tokens))
    return groups


def rounds(ranks: Ranks, size: str, repetitions: int) -> tuple[dict[str, Any], Policy]:
    """Seconds of each phase, all ranks at the same work, bytes that are kept, and the policy after it."""
    load = common.QUICK if size == "tiny" else common.FULL
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    policy = Policy(common.model(size).to(device), common.tokenizer(), device)
    generation = GenerationConfig(max_completion_length=load.new_tokens)
    generator = BatchGenerator(policy, generation, ranks=ranks)
    training = TrainingConfig(learning_rate=1e-3, num_iterations=2)
    trainer = GrpoTrainer(policy, training, generation, ranks=ranks)
    prompts = common.prompts(load.prompt_lengths)
    seconds: dict[str, list[float]] = {"generate": [], "update": []}
    for number in range(repetitions):
        began = perf_counter()
        generated = generator.generate(prompts, common.GROUP_SIZE, f"parallel/{number}")
        between = perf_counter()
        trainer.update(scored(prompts, generated))
        seconds["generate"].append(between - began)
        seconds["update"].append(perf_counter() - between)
    state = [value for each in trainer.optimizer.state.values() for value in each.values()]
    kept = {"weights_mb": megabytes(policy.model.parameters()), "state_mb": megabytes(state)}
    return {**seconds, **kept}, policy


def megabytes(tensors: Iterable[torch.Tensor]) -> float:
    return sum(each.nbytes for each in tensors) / 1e6


def memory_mb() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    return resident("VmHWM") * 2**20 / 1e6


def main() -> None:
    size, repetitions, folder, shard = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:] == ["shard"]
    common.settle()
    ranks = join(JoinedRanks, shard) if count_ranks() > 1 else ALONE
    found, policy = rounds(ranks, size, repetitions)
    rank = os.environ.get("RANK", "0")
    (folder / f"{rank}.json").write_text(json.dumps({**found, "memory_mb": memory_mb()}))
    if rank == "0":
        weights = {name: p.detach().cpu().contiguous() for name, p in policy.model.named_parameters()}
        save_file(weights, folder / "weights.safetensors")
    ranks.gather(True)  # nobody leaves while another still needs it


if __name__ == "__main__":
    main()
