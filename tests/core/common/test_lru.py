"""The bounded memory: what counts as use, and what is forgotten."""

from swarm_node.common.lru import Lru


def full() -> Lru[str, int]:
    memory: Lru[str, int] = Lru(3)
    for number, key in enumerate("abc"):
        memory[key] = number
    return memory


def test_to_get_and_to_put_again_is_to_use() -> None:
    memory = full()
    memory.use("a")
    memory["b"] = 9
    assert list(memory.items()) == [("c", 2), ("a", 0), ("b", 9)]


def test_to_look_is_not_to_use() -> None:
    memory = full()
    assert memory.get("a") == 0 and "a" in memory and "x" not in memory and memory.get("x") is None
    memory["d"] = 3
    assert "a" not in memory
