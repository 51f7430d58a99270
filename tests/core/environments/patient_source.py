"""The library's questions with time to build them on any machine: what they are is tested, not how long it takes."""

from swarm_node.environments.reasoning_gym import source
from swarm_node.scoring import contract

contract.QUESTION_BUDGET = 20.0
version = source.version
build = source.build
