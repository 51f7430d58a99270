"""The generator process of an asynchronous node in the tests: the real one, on a tiny model and the
digits.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from swarm_node.node.generator import serve
from tests.models import MANY_EOS, Digits, tiny_policy


def build(config):
    return tiny_policy("Qwen2", config.seed, eos=MANY_EOS), Digits()


if __name__ == "__main__":
    serve(build)
