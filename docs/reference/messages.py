"""The page of messages, made of the code and of messages.toml: `python docs/reference/messages.py`
writes it.

The code has the messages: what is passed to UserError, Warned and their kin, with … for what
differs. messages.toml has what to do about each. A message without an entry, or an entry without a
message, is an error.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
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
TABLES = {"Reason", "Refusal"}  # enumerations of them
LISTS = {"problems"}  # functions that append them to a list
VARIABLES = {"failed", "lost", "trouble"}  # that hold one
CONSTANTS = {"INSTALL"}  # dictionaries of them

HEAD = """# Messages, and what to do

Here you can look up what to do about an error or a warning. `make reference` makes this page from
the code and from messages.toml.

An error is one line that begins with `swarm-node:`, and the command ends with exit code 2, or with
75 where the cause may pass by itself. A warning begins with `warning:`, and the run goes on. `…`
stands for a name, a number or the words of another program. Look for a few words of yours with the
search of your browser.

`swarm-node doctor` looks for most of these by itself. A traceback is a mistake of this program:
please report it.
"""


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


def page() -> str:
    """The page. ValueError where code and messages.toml differ."""
    known = tomllib.loads((HERE / "messages.toml").read_text(encoding="utf-8"))
    listed = {text for section in known.values() for text in section}
    found = messages()
    if listed != found.keys():
        missing = [f"{found[text]}: {text}" for text in found.keys() - listed]
        raise ValueError(
            f"no remedy in messages.toml for {missing}; no such message in the code: "
            f"{listed - found.keys()}"
        )
    parts = [HEAD]
    for title, section in known.items():
        rows = [f"| {escaped(text)} | {escaped(remedy)} |\n" for text, remedy in section.items()]
        parts.append(f"## {title}\n\n| message | what to do |\n|---|---|\n{''.join(rows)}")
    return "\n".join(parts)


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:  # for whoever writes messages.toml
        sys.stdout.write("".join(f"{file}\t{text}\n" for text, file in messages().items()))
    else:
        (HERE / "messages.md").write_text(page(), encoding="utf-8")
