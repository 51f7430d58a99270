"""Deletes each check of an implementation, one at a time: does a vector fail without it?

    # of protocol/*.py; what runs/deletions.jsonl has is not done again
    python -m tests.protocol.deletions
    # of another implementation; clients/js/test/deletions.mjs does its own
    python -m tests.protocol.deletions --source FOLDER --checks CHECKS.jsonl --run COMMAND

A check is what refuses: each condition before a raise or a Rejected, each bound of a field, each
handler of an error. Ends with 1 if one can go unseen. CHECKS.jsonl has a line for each deletion:
{"file", "line", "start", "end" (bytes), "instead" (text)}; the command runs where `--source` lies
in the copied tree, and fails if a vector does.
"""

import ast
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

from lab.benchmarks import command
from lab.benchmarks.command import ROOT
from lab.vectors.forms import FOLDER

BOUNDS = {"min_length", "max_length", "ge", "gt", "le", "lt", "pattern", "strict", "extra"}
SECONDS = 120  # for all vectors; a command that takes longer hangs


@dataclass(frozen=True, slots=True)
class Deletion:
    """One change of a file."""

    file: str
    line: int
    start: int
    end: int
    instead: str

    def text(self, whole: bytes) -> str:
        return f"{' '.join(whole[self.start : self.end].decode().split())}  ->  {self.instead}"


def checks(file: str, whole: bytes) -> Iterator[Deletion]:
    """Every check of a Python file."""
    begins = [0, *accumulate(map(len, whole.splitlines(keepends=True)))]
    for node, instead in _weaker(ast.parse(whole)):
        start, end = (
            begins[node.lineno - 1] + node.col_offset,
            begins[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
        )
        yield Deletion(file, node.lineno, start, end, instead)


def _weaker(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Parts of the code, each with the text that stands there without the check."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test, body=[*_, last]) if _refuses(last):
                yield from _always(test, False)
            case ast.While(test=test):
                yield from _always(test, False)
            case ast.IfExp(test=test, body=body, orelse=other) if _refuses(body) or _refuses(other):
                yield from _always(test, not _refuses(body))
            case ast.Return(value=ast.BoolOp(values=[ast.Attribute(), *_])):
                pass  # a default, and no check
            case (
                ast.Assign(value=ast.BoolOp() as value)
                | ast.Return(value=ast.BoolOp() | ast.Compare() as value)
            ):
                yield from _always(
                    value, isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And)
                )
            case ast.Tuple(
                elts=[
                    ast.Attribute(value=ast.Name(id="Reason" | "Refusal" | "ProofFault")),
                    ast.Lambda(body=body),
                ]
            ):
                yield from _always(body, False)
            case ast.ExceptHandler(body=[last]) if _refuses(last):
                yield last, "raise"
            case _:
                yield from _wider(node)


def _wider(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Bounds of a field; and of sizes in a table, where a row is (least, size, most)."""
    match node:
        case ast.Call(func=ast.Name(id="Field" | "ConfigDict"), keywords=keywords):
            for gone in (each for each in keywords if each.arg in BOUNDS):
                rest = [each for each in keywords if each is not gone]
                yield node, ast.unparse(ast.Call(node.func, node.args, rest))
        case ast.Assign(targets=[ast.Name(id="sizes")], value=ast.Tuple(elts=rows)):
            for low, _, high in (row.elts for row in rows if isinstance(row, ast.Tuple)):
                yield from (
                    (high, "float('inf')"),
                    *([] if ast.unparse(low) == "0" else [(low, "float('-inf')")]),
                )


def _refuses(node: ast.AST) -> bool:
    match node:
        case ast.Return(value=ast.AST() as value) | ast.IfExp(body=value):
            return _refuses(value)
        case (
            ast.Raise()
            | ast.Call(func=ast.Name(id="Rejected"))
            | ast.Attribute(value=ast.Name("Reason" | "Refusal" | "ProofFault"))
        ):
            return True
    return isinstance(node, ast.Constant) and node.value is False


def _always(test: ast.expr, value: bool) -> Iterator[tuple[ast.expr, str]]:
    """Parts of the condition, each with a text that makes the condition more likely to have this
    value.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _always(operand, not value)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) == value:
            for each in values:
                yield from _always(each, value)
        case ast.Compare(left=left, ops=[one, other], comparators=[middle, right]) if value:
            yield test, ast.unparse(ast.Compare(middle, [other], [right]))
            yield test, ast.unparse(ast.Compare(left, [one], [middle]))
        case ast.Compare(ops=[ast.In()], comparators=[ast.Tuple(elts=items) as several]) if (
            not value
        ):
            for gone in items:
                yield several, ast.unparse(ast.Tuple([each for each in items if each is not gone]))
        case _:
            yield test, str(value)


def main() -> None:
    parser = command.parser("tests.protocol.deletions", __doc__)
    parser.add_argument(
        "--source", default="protocol", help="folder whose checks are deleted (protocol)"
    )
    parser.add_argument("--checks", type=Path, help="the deletions, if the files are not Python")
    parser.add_argument(
        "--run", default=f"{sys.executable} -m lab.vectors.reading", help="reads all vectors"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("runs/deletions.jsonl"),
        help="what is done (runs/deletions.jsonl)",
    )
    options = parser.parse_args()
    files = {
        str(each.relative_to(ROOT)): each.read_bytes()
        for each in sorted((ROOT / options.source).rglob("*"))
        if each.is_file()
    }
    if options.checks:
        wanted = [Deletion(**json.loads(line)) for line in options.checks.read_text().splitlines()]
    else:
        wanted = [
            each
            for file, whole in files.items()
            if file.endswith(".py")
            for each in checks(file, whole)
        ]
    inputs = [
        *files.values(),
        *(file.read_bytes() for file in sorted(FOLDER.glob("*.json"))),
        options.run.encode(),
    ]
    state = hashlib.sha256(b"".join(inputs)).hexdigest()[:16]
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    lines = map(json.loads, options.runs.read_text().splitlines() if options.runs.exists() else ())
    done = {Deletion(**each["deletion"]): each["seen"] for each in lines if each["state"] == state}
    with tempfile.TemporaryDirectory() as folder, options.runs.open("a") as results:
        tree = _copy(Path(folder), options.source)
        if why := _failure(tree, options.run):
            sys.exit(f"the vectors fail with all checks in place: {why}")
        for each in wanted:
            if each in done:
                continue
            whole = files[each.file]
            (tree / each.file).write_bytes(
                whole[: each.start] + each.instead.encode() + whole[each.end :]
            )
            done[each] = _failure(tree, options.run)
            (tree / each.file).write_bytes(whole)
            results.write(
                json.dumps({"state": state, "deletion": asdict(each), "seen": done[each]}) + "\n"
            )
            results.flush()
    rows = [
        [f"{each.file}:{each.line}", each.text(files[each.file]), done[each] or "NOTHING"]
        for each in wanted
    ]
    command.show(["where", "without", "what fails"], rows)
    unseen = [row for row in rows if row[2] == "NOTHING"]
    command.finish(
        options, {"checks": len(rows), "unseen": [f"{where} {what}" for where, what, _ in unseen]}
    )
    if unseen:
        sys.exit(f"{len(unseen)} of {len(rows)} checks can go unseen")


def _copy(folder: Path, source: str) -> Path:
    """The repository as links, with a real copy of the source's top folder."""
    for each in ROOT.iterdir():
        if each.name not in (".git", Path(source).parts[0]):
            (folder / each.name).symlink_to(each)
    shutil.copytree(ROOT / Path(source).parts[0], folder / Path(source).parts[0], symlinks=True)
    return folder


def _failure(tree: Path, words: str) -> str:
    """The last line of what the command says, if it fails; otherwise nothing."""
    try:
        ran = subprocess.run(
            shlex.split(words), cwd=tree, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    said = (ran.stderr.strip() or ran.stdout.strip()).splitlines() or ["fails"]
    return said[-1][:60] if ran.returncode else ""


if __name__ == "__main__":
    main()
