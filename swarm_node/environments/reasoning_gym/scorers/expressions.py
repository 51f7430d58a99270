"""Scorers of data sets whose answer is arithmetic or a polynomial, read by `polynomials.py`."""

from collections.abc import Mapping
from typing import Any

from swarm_node.environments.reasoning_gym.scorers import polynomials
from swarm_node.environments.reasoning_gym.scorers.reading import Unreadable, bare

Entry = Mapping[str, Any]


def countdown(answer: str, entry: Entry) -> float:
    """1.0 for an expression of exactly these numbers that makes the target, little for anything else."""
    try:
        value, used = polynomials.number(answer), sorted(polynomials.integers(answer))
    except Unreadable:
        return 0.01
    right = used == sorted(entry["metadata"]["numbers"]) and value == entry["metadata"]["target"]
    return 1.0 if right else 0.01


def puzzle24(answer: str, entry: Entry) -> float:
    """1.0 for an expression of exactly these numbers that makes 24. The library takes any four numbers."""
    try:
        right = polynomials.number(answer) == 24
        return float(right and sorted(polynomials.integers(answer)) == sorted(entry["metadata"]["numbers"]))
    except Unreadable:
        return 0.0


def written(answer: str, entry: Entry) -> str:
    """The arithmetic of an answer, with no bracket or space too many."""
    return polynomials.written(answer)


def polynomial(answer: str, entry: Entry) -> float:
    """1.0 for the expanded product, like terms in one. As in the library the question itself scores 0."""
    names, answer = frozenset(entry["metadata"]["variables"]), bare(answer)
    if "(" in answer:
        return 0.0
    try:
        if polynomials.says_more(answer):
            return 0.0
        given = polynomials.parse(answer, names)
        collected = polynomials.terms(answer) <= max(1, len(given))
        return float(collected and given == polynomials.parse(entry["answer"], names))
    except Unreadable:
        return 0.0


def antiderivative(answer: str, entry: Entry) -> float:
    """1.0 for a polynomial whose derivative is the integrand, with C or nothing as its constant: a number says more."""
    variable = entry["metadata"]["variable"]
    try:
        if polynomials.says_more(answer):
            return 0.0
        given = polynomials.parse(answer, frozenset((variable, "C", "c")))
        if polynomials.terms(answer) > max(1, len(given)):
            return 0.0
        if any(not polynomials.is_constant(given, name) for name in ("C", "c") if name != variable):
            return 0.0
        return float(
            polynomials.derivative(given, variable)
            == polynomials.parse(entry["metadata"]["integrand"], frozenset((variable,)))
        )
    except Unreadable:
        return 0.0
