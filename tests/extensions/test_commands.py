"""The commands of extensions as a user meets them: what is wrong costs one line, and options are completed."""

import pytest

from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError

WRONG = [
    ("simulate --nodes 0", "--nodes: must be greater than or equal to 1, not 0"),
    ("task solve", "swarm-node task solve temporal_clue/tiny"),
    ("task solve temporal_clue/tiny --seed x", "--seed: must be a valid integer, not 'x'"),
    ("simulate --out /proc/x", "/proc/x cannot be written"),
    ("simulate --attack lies --attack.share 1.0 --out out", "somebody to attack"),
    ("simulate --defence prayer", "prayer"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_a_mistake_is_one_line(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        dispatch(words.split())
    assert said in str(caught.value) and "\n" not in str(caught.value)
