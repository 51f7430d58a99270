"""One side of `lab.benchmarks.older`: `PYTHON older_side.py SIZE TYPE RANK NEW`, in the folder of
its commit.

The first line of standard input is the prompts as JSON. Each further line asks for a turn: all
completions and one update on them. The answer is the CPU seconds of both. This file uses the
benchmarks of that commit, so it works from commit 6bddc25 on.
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path[0] = str(Path.cwd())
ROOM = "lab.benchmarks" if Path("lab", "benchmarks").is_dir() else "benchmarks"


def main() -> None:
    size, dtype, rank, new = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    common: Any = import_module(f"{ROOM}.common")
    step: Any = import_module(f"{ROOM}.step")
    common.settle()
    model, texts = common.model(size), json.loads(sys.stdin.readline())
    if rank:
        peft: Any = import_module("peft")
        how = peft.LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        model = peft.get_peft_model(model, how)
    autocast = None if dtype == "float32" else step.torch.bfloat16
    policy = step.Policy(model, common.tokenizer(size), step.torch.device("cpu"), autocast)
    config = step.GenerationConfig(num_generations=common.GROUP_SIZE, max_completion_length=new)
    generator = step.BatchGenerator(policy, config)
    trainer = step.GrpoTrainer(policy, step.TrainingConfig(learning_rate=1e-6), config)
    scored = getattr(step, "scored", None) or common.scored
    for turn, _ in enumerate(sys.stdin):
        start = time.process_time()
        generated = generator.generate(texts, common.GROUP_SIZE, f"older/{turn}")
        written = time.process_time()
        report = trainer.update([scored(*each) for each in zip(texts, generated, strict=True)])
        updated = time.process_time()
        assert report.trained_tokens == len(texts) * common.GROUP_SIZE * new, report
        print(written - start, updated - written, flush=True)


if __name__ == "__main__":
    main()
