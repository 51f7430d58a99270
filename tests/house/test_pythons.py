"""Every start of a Python by what we ship says -P: without it Python looks for modules in the
current folder first, which may be a stranger's.

The starts are found in the code, so a new one needs no list. What follows -P is the start's own.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("swarm_node", "protocol", "bin", "docker", "deploy", "examples", "clients", "configs")
# Folders whose Pythons are started for those who develop, in a checkout of their own: `-m lab.…`
# and `-m tests.…` are found in the current folder, and nowhere else
OF_DEVELOPERS = {"lab", "tests", "docs", "release"}
SHELLS = ("*.sh", "*.yaml", "*.yml", "*.service", "Dockerfile", "swarm-node", "textswarm")
LEFT_OUT = ("node_modules", "__pycache__", "wheels", "locks")
# File and words of an expression that names a Python and starts none, or starts the user's: why
EXEMPT = {
    ("docker/check_public_swarm.py", "f'#!/bin/sh\\nexec {sys.executable}"): (
        "a check of developers: its program is docker/processes.py"
    ),
    ("docker/check_public_swarm.py", "[sys.executable, '-c', ASKED, query]"): (
        "a check of developers, which runs in a checkout"
    ),
    ("swarm_node/hub/card.py", "'transformers', 'peft', 'python')"): (
        "names of what a card says the versions of"
    ),
    ("docker/lock.py", "(python, machine)"): "the version of a Python, for the name of a lock",
}
NAMES = re.compile(r"python(3(\.\d+)?)?")
# A Python in shell text, and its words up to the first that is no flag
IN_A_SHELL = re.compile(
    r"""(?:^|[\s"'/(;&|])(?:\$\{?python\}?|python(?:3(?:\.\d+)?)?)["']?((?:\s+-\S+)+|\s+"\$0"|\s+\S+\.py\b)""",
    re.IGNORECASE,
)


def files(*patterns: str) -> Iterator[Path]:
    for file in [
        *(one for top in SHIPPED for pattern in patterns for one in (ROOT / top).rglob(pattern)),
        *(ROOT.glob("Dockerfile") if "Dockerfile" in patterns else ()),
    ]:
        if file.is_file() and not any(part in LEFT_OUT for part in file.parts):
            yield file


def names_a_python(node: ast.AST) -> bool:
    """Whether this expression is an interpreter: sys.executable, a variable of that meaning, or
    the name of a program.
    """
    match node:
        case ast.Attribute(attr="executable" | "_base_executable"):
            return True
        case ast.Name(id="executable" | "python"):
            return True
        case ast.Constant(value=str(text)):
            return bool(NAMES.fullmatch(text.rpartition("/")[2]))
        case ast.BoolOp(values=values):
            return any(map(names_a_python, values))
        case ast.Call(args=[inside]):  # str(…), Path(…)
            return names_a_python(inside)
    return False


def starts(text: str) -> Iterator[tuple[str, bool]]:
    """Each place where this code names a Python, and whether -P stands behind it."""
    tree = ast.parse(text)
    below: dict[ast.AST, ast.AST] = {
        child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
    }
    lines, seen = set[ast.AST](), set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            for number, element in enumerate(node.elts):
                if names_a_python(element):
                    seen.update(ast.walk(element))
                    lines.add(node)
                    yield ast.unparse(node), "-P" in flags(node.elts[number + 1 :])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and names_a_python(node) and node not in seen:
            # Of os.exec…(program, [program, …]) the list counts
            call = below[node]
            beside = call.args[1:2] if isinstance(call, ast.Call) else []
            if not (beside and beside[0] in lines):
                yield ast.unparse(statement(node, below)), False
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or node.names[0].name
            if module.partition(".")[0] == "multiprocessing" or "ProcessPool" in ast.unparse(node):
                yield ast.unparse(node), False  # starts Pythons as this one was started


def flags(elements: list[ast.expr]) -> list[object]:
    """The flags of the interpreter itself: up to -m, -c or a file."""
    found = list[object]()
    for element in elements:
        if not isinstance(element, ast.Constant) or element.value in ("-m", "-c"):
            break
        found.append(element.value)
    return found


def statement(node: ast.AST, below: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt):
        node = below[node]
    return node


def starts_in_a_shell(text: str) -> Iterator[tuple[str, bool]]:
    """Each start of a Python in a text of sh, YAML or a Dockerfile."""
    for found in IN_A_SHELL.finditer("\n".join(map(without_comment, text.splitlines()))):
        before = re.split(r"\s-[mc]\b", found[1])[0]
        yield found.group().strip(), "-P" in before.split()


def without_comment(line: str) -> str:
    return "" if line.lstrip().startswith("#") else line


def test_every_start_of_a_python_that_we_ship_takes_no_module_from_the_current_folder() -> None:
    wrong, counted = [], 0
    for file in files("*.py"):
        name = str(file.relative_to(ROOT))
        for words, safe in starts(file.read_text(encoding="utf-8")):
            counted += 1
            reasons = [
                why for (where, part), why in EXEMPT.items() if where == name and part in words
            ]
            if not safe and not reasons:
                wrong.append(f"{name}: {words}")
    for file in files(*SHELLS):
        for words, safe in starts_in_a_shell(file.read_text(encoding="utf-8")):
            counted += 1
            if not safe:
                wrong.append(f"{file.relative_to(ROOT)}: {words}")
    assert wrong == []
    assert counted > 20, "the starts that there are, are found"


def test_each_exemption_is_needed() -> None:
    for (name, part), why in EXEMPT.items():
        found = [
            words for words, safe in starts((ROOT / name).read_text()) if part in words and not safe
        ]
        assert found and why, (name, part)


def test_no_folder_of_the_project_is_forgotten() -> None:
    tops = {file.relative_to(ROOT).parts[0] for file in ROOT.glob("[!.]*/**/*.py")}
    assert tops - set(SHIPPED) - OF_DEVELOPERS - {"node_modules"} == set()


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'swarm_node'])",
        "COMMAND = (sys.executable, '-s', '-B', '-m', module)",
        "words = [sys.executable, '-c', code]",
        "Popen([python or sys.executable, '-m', 'vllm', '-P'])",
        "os.execve(sys.executable, [sys.executable, '-m', 'x'], {})",
        "run(['python3', '-m', 'http.server'])",
        "run(['/usr/bin/python3.11', script])",
        "run([str(sys.executable), script])",
        "os.execv(sys.executable, words)",
        "command = f'{sys.executable} -m x'",
        "from multiprocessing import get_context",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_a_new_start_without_it_would_be_found(text: str) -> None:
    assert [safe for _, safe in starts(text)].count(False) == 1, text


def test_a_start_with_it_passes() -> None:
    for text in (
        "run([sys.executable, '-s', '-P', '-B', '-m', 'swarm_node'])",
        "os.execve(sys.executable, [sys.executable, '-P', '-m', 'x'], {})",
    ):
        assert [safe for _, safe in starts(text)] == [True], text


def test_a_start_in_a_shell_is_found() -> None:
    for text in (
        "RUN python -m compileall .",
        'exec "$python" "$0" "$@"',
        '"$bin/python" -c "print()"',
        "command: python3 server.py",
        "ExecStart=/opt/x/bin/python -B -m swarm_node -P",
    ):
        assert [safe for _, safe in starts_in_a_shell(text)] == [False], text
        safe = re.sub(r'(python(?:3)?"?)', r"\1 -P", text, count=1)
        assert [safe for _, safe in starts_in_a_shell(safe)] == [True], safe
    assert not list(starts_in_a_shell("# python -m x\nlib/python3*/site-packages\npython3-dev"))
