"""One side of `lab.benchmarks.update`: `PYTHON update_side.py SIZE LAYERS TYPE RANK PROMPTS PROMPT
NEW`, with the folder of its commit first among the places of modules.

Each line of standard input asks for one update on the same groups. The answer is a line of JSON:
its CPU seconds, or, where the line is `count`, how many operators an update calls, and how many MiB
the last micro-batch keeps for its backward pass, without the weights. This file uses the trainer of
its commit, so it works from commit c7e08439 on.
"""

import json
import sys
import time
from random import Random
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lab.benchmarks import common
from swarm_node.policy.batch import Row, TokenGroup
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.objectives import Totals
from swarm_node.training.trainer import GrpoTrainer

RECORDED = -9.0  # log-prob of each token: near to that of an untrained model


class Operators(TorchDispatchMode):
    """Counts the calls of operators inside that are no views, in backward passes too."""

    count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += not function.is_view
        return function(*args, **(kwargs or {}))


def groups_of(vocabulary: int, prompts: int, prompt: int, new: int) -> list[TokenGroup]:
    """Groups of random tokens. Three quarters of each prompt are the same in all."""
    random = Random(0)

    def tokens(count: int) -> list[int]:
        return [random.randrange(vocabulary) for _ in range(count)]

    def row(number: int) -> Row:
        advantage = number / (common.GROUP_SIZE - 1) - 0.5
        fresh = [0.0] * new
        return Row(tokens(new), advantage, False, [RECORDED] * new, staleness=fresh)

    shared = tokens(prompt * 3 // 4)
    return [
        TokenGroup(
            shared + tokens(prompt - len(shared)),
            [row(number) for number in range(common.GROUP_SIZE)],
        )
        for _ in range(prompts)
    ]


def trainer_of(size: str, layers: int, dtype: str, rank: int, new: int) -> GrpoTrainer:
    """A trainer of an untrained model of this size, under adapters if there is a rank."""
    model = common.model(size, layers)
    if rank:
        import peft

        how = peft.LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        model = peft.get_peft_model(model, how)
    autocast = None if dtype == "float32" else torch.bfloat16
    policy = Policy(model, common.tokenizer(size), torch.device("cpu"), autocast)
    config = GenerationConfig(num_generations=common.GROUP_SIZE, max_completion_length=new)
    return GrpoTrainer(policy, TrainingConfig(learning_rate=common.RATE), config)


def counted(trainer: GrpoTrainer, groups: list[TokenGroup]) -> dict[str, float]:
    """Operators of an update, and MiB that its last micro-batch keeps."""
    weights = {p.untyped_storage().data_ptr() for p in trainer.policy.model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def forgotten(*_: Any) -> None:
        kept.clear()

    embedding = trainer.policy.model.get_input_embeddings()
    handle = embedding.register_forward_pre_hook(forgotten)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        Operators() as operators,
    ):
        trainer._step(groups, Totals())
    handle.remove()
    return {"operators": operators.count, "kept_mebibytes": sum(kept.values()) / 2**20}


def main() -> None:
    size, dtype = sys.argv[1], sys.argv[3]
    layers, (rank, prompts, prompt, new) = int(sys.argv[2]), map(int, sys.argv[4:])
    common.settle()
    trainer = trainer_of(size, layers, dtype, rank, new)
    vocabulary = trainer.policy.model.config.vocab_size
    groups = groups_of(vocabulary, prompts, prompt, new)
    for line in sys.stdin:
        if line.strip() == "count":
            print(json.dumps(counted(trainer, groups)), flush=True)
            continue
        start, totals = time.process_time(), Totals()
        trainer._step(groups, totals)
        taken = time.process_time() - start
        assert totals.tokens == prompts * common.GROUP_SIZE * new, totals
        print(json.dumps({"cpu_seconds": taken}), flush=True)


if __name__ == "__main__":
    main()
