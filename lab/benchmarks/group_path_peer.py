"""A peer whose completions carry a mark, for `lab.benchmarks.group_path`: `group_path_peer.py HOME
MARK ADDRESS`.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from protocol.identity import Identity
from protocol.messages import Episode, Question, RolloutGroup, Round
from swarm_node.environments.reasoning_gym.environment import KIND, ReasoningGym
from swarm_node.network.client import RemoteNetwork, build_rules
from swarm_node.rollouts.groups import Group
from swarm_node.settings import LearningConfig, NetworkConfig

SWARM = "structure"
QUESTIONS, COMPLETIONS = 4, 8
SECONDS = 600  # at most


def main() -> None:
    home, mark, address = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    home.mkdir()
    identity, environment = Identity.create(), ReasoningGym(["products/tiny"])
    environment.swarm = SWARM  # seeds of questions depend on it
    config = NetworkConfig(peers=(address,), host="127.0.0.1", mdns=False, exchange_seconds=1.0)
    rules = build_rules(LearningConfig(swarm=SWARM), environment)
    network = RemoteNetwork(identity, home, config, rules, 1, dict)
    network.start()
    try:
        for now in map(Round, range(SECONDS)):
            questions = environment.sample(identity.peer_id, now, QUESTIONS)
            network.publish([_group(identity, now, question, mark) for question in questions], now)
            time.sleep(1.0)
    except KeyboardInterrupt:
        pass
    finally:
        network.close()
        environment.close()


def _group(identity: Identity, now: Round, question: Question, mark: str) -> RolloutGroup:
    """A group with one right completion, so that it is informative."""
    texts = [KIND.answer(question), *(f"{mark}?" for _ in range(COMPLETIONS - 1))]
    completions = tuple(Episode.of(text=text, ended=True) for text in texts)
    return Group.of_text(identity.peer_id, now, question, completions).message()


if __name__ == "__main__":
    main()
