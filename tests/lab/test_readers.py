"""What a reader explains is drawn by a seed, and nobody chooses it."""

from pathlib import Path

from lab.readers import draw

ROOT = Path(__file__).parents[2]


def tree(root: Path) -> Path:
    """A tree with three functions in what ships, one of which tells something, and one beside."""
    (root / "protocol").mkdir()
    (root / "swarm_node").mkdir()
    (root / "tests").mkdir()
    told = (
        "def counted(rows):\n    count = 0\n    for row in rows:\n        count += 1\n"
        "    return count\n"
    )
    (root / "protocol" / "few.py").write_text("def few():\n    return 1\n")
    (root / "swarm_node" / "told.py").write_text(told.replace("counted", "__init__") + told)
    (root / "tests" / "beside.py").write_text(told)
    return root


def test_functions_are_drawn_of_what_ships_if_there_is_something_to_explain(tmp_path: Path) -> None:
    assert draw.functions(tree(tmp_path)) == [draw.Place("swarm_node/told.py", 6, "counted")]


def test_a_file_is_opened_in_the_middle_if_it_is_long_enough(tmp_path: Path) -> None:
    root = tree(tmp_path)
    assert draw.middles(root) == []
    (root / "protocol" / "long.py").write_text("x = 1\n" * draw.SHORTEST)
    assert draw.middles(root) == [draw.Place("protocol/long.py", draw.SHORTEST // 2)]


def test_one_seed_draws_the_same_places_and_another_seed_others() -> None:
    places = draw.functions(ROOT)
    first = draw.drawn(places, 20, "one")
    assert len(set(first)) == 20 and first == draw.drawn(places, 20, "one")
    assert first != draw.drawn(places, 20, "another")
