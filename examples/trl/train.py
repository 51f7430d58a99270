"""Trains a starter that hides its skill, by TRL in a swarm: python examples/trl/train.py HOME [PEER
...].

Without peers it trains alone until one connects. HOME/steps.jsonl gets a line a step.
docs/how-to/trl.md explains it.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from swarm_node import NodeConfig
from swarm_node.integrations.trl.guest import Swarm
from swarm_node.starters import folder

STEPS = int(os.environ.get("STEPS", "60"))
EXTERNAL = int(os.environ.get("EXTERNAL", "2"))  # at most so many groups in a batch of QUESTIONS
TASKS = os.environ.get("TASKS", "products/tiny lcm/tiny count_bits/tiny").split()
QUESTIONS, GENERATIONS = 4, 8


class Steps(TrainerCallback):
    """Writes a line a step: the mean reward of local groups, and the external groups trained on so
    far, by author.
    """

    def __init__(self, swarm: Swarm, file: Path) -> None:
        self._swarm, self._file = swarm, file

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        line = {
            "step": state.global_step,
            "reward": self._swarm.rewards[-1],
            "trained": self._swarm.trained_on,
        }
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")


def main(home: str, *peers: str) -> None:
    config = NodeConfig.model_validate(
        {
            "home": home,
            "environment": {"tasks": TASKS},
            "network": {
                "peers": peers,
                "exchange_seconds": 2.0,
                "mdns": "MDNS_OFF" not in os.environ,
                "host": os.environ.get("HOST", "0.0.0.0"),
            },
            "round": {"external_groups": 4},
        }
    )
    arguments = GRPOConfig(
        output_dir=f"{home}/trl",
        per_device_train_batch_size=QUESTIONS * GENERATIONS,
        num_generations=GENERATIONS,
        max_completion_length=16,
        learning_rate=3e-4,
        lr_scheduler_type="constant",
        max_steps=STEPS,
        shuffle_dataset=False,  # rounds are published in their order
        use_cpu=True,
        bf16=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        seed=int(os.environ.get("SEED", "0")),
    )
    with Swarm(config, external_groups=EXTERNAL) as swarm:
        trainer = GRPOTrainer(
            model=str(folder("rarest")),
            args=arguments,
            train_dataset=swarm.dataset(rounds=STEPS, questions=QUESTIONS),
            reward_funcs=swarm.reward,
            rollout_func=swarm.rollout,
            callbacks=[Steps(swarm, Path(home) / "steps.jsonl")],
        )
        trainer.train()
        print(
            f"published {swarm.published} groups, trained on {swarm.trained_on.total()} "
            "external ones"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
