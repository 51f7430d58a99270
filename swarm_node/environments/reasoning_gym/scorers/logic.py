"""Statements of propositional logic, without recursion: a statement is the set of assignments under
which it is true.

The library searches the rightmost operator of every part again, and tries every assignment of the
variables it finds in a completion: 24 of them joined by "or" took it minutes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from swarm_node.environments.reasoning_gym.scorers.reading import Unreadable, bounded

MAX_SIGNS = 2000  # variables, operators and brackets of one statement
MAX_VARIABLES = 12
MAX_SAID = 12  # signs of a conclusion, plus three for each sign of the premises
NOT, OPEN, CLOSE = "¬", "(", ")"
# How tightly an operator binds; equal ones group from the left
BINDING = {"↔": 0, "→": 1, "∨": 2, "∧": 3}


def conclusion(answer: str, entry: Mapping[str, Any]) -> float:
    """1.0 for a statement that follows from the premises, is not trivial, and is short enough
    (`MAX_SAID`).
    """
    facts = entry["metadata"]
    assignments = Assignments(facts["variables"])
    given, premises = assignments.of(bounded(answer)), assignments.all
    for premise in facts["premises"]:
        premises &= assignments.of(premise)
    said = written(answer)
    longest = MAX_SAID + 3 * sum(map(len, facts["premises"]))
    if NOT * 2 in "".join(answer.split()) or len(said) > longest:
        return 0.0
    trivial = given == assignments.all or said in facts["variables"]
    return float(not trivial and not premises & ~given)


class Assignments:
    """All assignments of true and false to these variables; a set of them is an integer with a bit
    for each.
    """

    def __init__(self, variables: Sequence[str]) -> None:
        if len(variables) > MAX_VARIABLES:
            raise Unreadable("too many variables")
        count = 2 ** len(variables)
        self.all: int = 2**count - 1
        # Variable -> the assignments in which it is true, as bits
        self._where: dict[str, int] = {}
        for place, name in enumerate(variables):
            true = (assignment for assignment in range(count) if assignment >> place & 1)
            self._where[name] = sum(1 << assignment for assignment in true)

    def of(self, statement: str) -> int:
        """The assignments that make the statement true. Raises Unreadable for any but variables,
        operators and brackets.
        """
        values: list[int] = []
        waiting: list[str] = []  # operators and open brackets whose right side is not complete
        operand = True  # whether an operand comes next
        for sign in _signs(statement):
            if operand and sign in (NOT, OPEN):
                waiting.append(sign)
            elif operand and sign in self._where:
                values.append(self._where[sign])
                operand = False
            elif not operand and sign == CLOSE:
                self._apply(values, waiting, -1)
                if not waiting:
                    raise Unreadable("a bracket too many")
                waiting.pop()
            elif not operand and sign in BINDING:
                self._apply(values, waiting, BINDING[sign])
                waiting.append(sign)
                operand = True
            else:
                raise Unreadable("no statement")
        self._apply(values, waiting, -1)
        if operand or waiting:
            raise Unreadable("no whole statement")
        return values[0]

    def _apply(self, values: list[int], waiting: list[str], binding: int) -> None:
        """Apply the waiting operators that bind at least as tightly as the one that follows."""
        while waiting and waiting[-1] != OPEN:
            if BINDING.get(waiting[-1], 9) < binding:
                break
            operator, right = waiting.pop(), values.pop()
            if operator == NOT:
                values.append(self.all ^ right)
            else:
                values.append(self._joined(operator, values.pop(), right))

    def _joined(self, operator: str, left: int, right: int) -> int:
        match operator:
            case "∧":
                return left & right
            case "∨":
                return left | right
            case "→":
                return (self.all ^ left) | right
        return self.all ^ left ^ right


def _signs(statement: str) -> list[str]:
    if len(statement) > MAX_SIGNS:
        raise Unreadable("too long")
    return "".join(statement.split()).replace("", " ").split()


def written(statement: str) -> str:
    """A statement that `Assignments` can read, with one space around each operator, and without
    needless brackets and double negations.
    """
    signs = _signs(statement)
    closing: dict[int, int] = {}
    opened: list[int] = []
    for at, sign in enumerate(signs):
        if sign == OPEN:
            opened.append(at)
        elif sign == CLOSE:
            closing[opened.pop()] = at
    idle: set[int] = set()
    for begin, end in closing.items():
        inner = closing.get(begin + 1) == end - 1
        if inner or end - begin == 2:
            idle |= {begin, end}
    kept = "".join(sign for at, sign in enumerate(signs) if at not in idle)
    while NOT * 2 in kept:
        kept = kept.replace(NOT * 2, "")
    return "".join(map(_spaced, kept))


def _spaced(sign: str) -> str:
    return f" {sign} " if sign in BINDING else sign
