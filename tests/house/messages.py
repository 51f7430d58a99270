"""What the code says to people: the walker over its syntax trees that finds every message.

A message is what is passed to UserError, Warned and their kin, with … for what differs. Tests look
at their words.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ERRORS = {
    "UserError",
    "TemporaryError",
    "UnknownTaskError",
    "ScoringUnavailable",
    "GeneratorFailed",
    "RoundLost",
}
SAYING = {*ERRORS, "Warned", "warn", "_warn"}  # calls whose first argument is a message
SECOND = {"say", "_say"}  # calls whose first argument is one if the second is True: a warning
HELPERS = {"_reason", "_line", "stalled", "alone"}  # functions that return one
TABLES = {"Reason", "Refusal", "ProofFault"}  # enumerations of them
LISTS = {"problems"}  # functions that append them to a list
VARIABLES = {"failed", "lost", "trouble"}  # that hold one
CONSTANTS = {"INSTALL"}  # dictionaries of them


def messages() -> dict[str, str]:
    """Every message of the code, with the file that it is first found in."""
    found: dict[str, str] = {}
    for folder in ("swarm_node", "protocol"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for text in said(ast.parse(file.read_text(encoding="utf-8"))):
                found.setdefault(text, str(file.relative_to(ROOT)))
    return found


def said(tree: ast.AST) -> Iterator[str]:
    """The messages in this code whose words stand there."""
    for node in ast.walk(tree):
        values: list[ast.expr | None] = []
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *rest]):
                warning = name in SECOND and any(
                    isinstance(each, ast.Constant) and each.value is True for each in rest
                )
                values = [first] if name in SAYING or warning else []
            case ast.FunctionDef(name=name) if name in HELPERS:
                values = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
            case ast.ClassDef(name=name, body=body) if name in TABLES:
                values = [each.value for each in body if isinstance(each, ast.Assign)]
            case ast.FunctionDef(name=name) if name in LISTS:
                calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
                values = [
                    call.args[0] for call in calls if getattr(call.func, "attr", "") == "append"
                ]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(values=several)) if (
                name in CONSTANTS
            ):
                values = list(several)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in VARIABLES:
                values = [value]
        for value in values:
            if value is not None and (text := words(value).strip()) and text.strip("… ;,.()"):
                yield text


def words(value: ast.expr) -> str:
    """The text of an expression, with … for what is only known when it runs; "" where all of it
    is.
    """
    match value:
        case ast.Constant(value=str(text)):
            return text.replace("{}", "…")
        case ast.JoinedStr(values=parts):
            return "".join(words(part) if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (words(left) or "…") + (words(right) or "…")
        case ast.IfExp(body=body, orelse=other):
            return words(body) or words(other)
    return ""
