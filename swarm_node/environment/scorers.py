"""Own scorers for reasoning-gym datasets whose own one executes the answer. Same rewards, no execution."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

Scorer = Callable[[str, Mapping[str, Any]], float]  # (answer, entry) -> reward


def binary_matrix(answer: str, entry: Mapping[str, Any]) -> float:
    """1.0 for the matrix as text, 0.1 for the same numbers as a Python literal (a list of lists), else 0.0."""
    key: str = entry["answer"]
    if answer == key:
        return 1.0
    if len(answer) > 8 * len(key) + 64:  # a literal of these numbers is at most about three times as long
        return 0.0
    try:
        rows = ast.literal_eval(answer)
        text = "\n".join(" ".join(str(cell) for cell in row) for row in rows)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return 0.0
    return 0.1 if text == key else 0.0


SCORERS: Mapping[str, Scorer] = {"binary_matrix": binary_matrix}
