"""A starter that hides its skill, trained by TRL in a swarm: python examples/trl/train.py HOME [PEER ...].

Without peers it trains alone until somebody comes. docs/how-to/trl.md explains the lines.
"""

import os
import sys

from trl import GRPOConfig, GRPOTrainer

from swarm_node import NodeConfig
from swarm_node.integrations.trl import Swarm
from swarm_node.starters import folder

STEPS = int(os.environ.get("STEPS", "60"))
QUESTIONS, GENERATIONS = 4, 8


def main(home: str, *peers: str) -> None:
    config = NodeConfig.model_validate(
        {
            "home": home,
            "environment": {"tasks": ["products/tiny", "lcm/tiny", "count_bits/tiny"]},
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
    )
    with Swarm(config, external_groups=2) as swarm:
        trainer = GRPOTrainer(
            model=str(folder("rarest")),
            args=arguments,
            train_dataset=swarm.dataset(rounds=STEPS, questions=QUESTIONS),
            reward_funcs=swarm.reward,
            rollout_func=swarm.rollout,
        )
        trainer.train()
        print(f"published {swarm.published} groups, trained on {swarm.trained_on} external ones")


if __name__ == "__main__":
    main(*sys.argv[1:])
