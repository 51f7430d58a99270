"""The code that a card runs, on a device that raises where host and device are mixed; and the list of what is left."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "card.md"
LENGTH, GROUPS = 18, [4, 4, 4]


@pytest.fixture(scope="module")
def found() -> dict:
    words = [sys.executable, "-m", "tests.pretend"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_tensors_of_host_and_device_that_are_mixed_raise(found) -> None:
    assert "cpu" in found.pop("mixed")["failed"]
    assert {name: each for name, each in found.items() if "failed" in each} == {}
    assert len(found) == 13


@pytest.mark.slow
def test_generation_waits_once_for_a_block(found) -> None:
    for name in ("LlamaDecoder", "ModelDecoder", "LlamaDecoder bfloat16", "LlamaDecoder LoRA", "ModelDecoder LoRA"):
        result, waits = found[f"generate {name}"]["result"], found[f"generate {name}"]["waits"]
        blocks, at_the_end = 3, 3  # the first token, sixteen, one; then texts, log-probs and lengths
        assert result == GROUPS
        assert waits == {"on_host": blocks + at_the_end}, name


@pytest.mark.slow
def test_training_and_a_resume_take_their_steps(found) -> None:
    steps = {name: each["result"] for name, each in found.items() if name.startswith("train ") or name == "resume"}
    assert steps == {**{name: 2 for name in steps}, "resume": 1}
    assert len(steps) == 5


def asked_for_cuda(tree: ast.AST, name: str = "") -> Iterator[str]:
    """The functions in which CUDA is named."""
    for node in ast.iter_child_nodes(tree):
        inside = f"{name}.{node.name}".strip(".") if isinstance(node, ast.FunctionDef | ast.ClassDef) else name
        match node:
            case ast.Constant(value="cuda" | "cuda:1") | ast.Attribute(value=ast.Name(id="torch"), attr="cuda"):
                yield inside
        yield from asked_for_cuda(node, inside)


def test_everything_that_asks_for_cuda_is_on_the_page() -> None:
    code = {
        (str(file.relative_to(ROOT / "swarm_node")), name)
        for file in (ROOT / "swarm_node").rglob("*.py")
        for name in asked_for_cuda(ast.parse(file.read_text(encoding="utf-8")))
    }
    rows = re.findall(r"^\| `([^`]+)` (?:`([^`]+)`|the module) \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(rows) == len(set(rows)) > 20
    assert set(rows) == code
