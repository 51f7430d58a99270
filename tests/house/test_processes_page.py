"""Every file that starts a process, or loads code by a name, has a row in
docs/explanation/processes.md.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "processes.md"
NAMES = {"run_within",   # counted in any module
    *("Popen", "check_output", "check_call", "getoutput", "getstatusoutput",
        "create_subprocess_exec"),
    *("create_subprocess_shell", "system", "popen", "startfile", "fork", "forkpty", "posix_spawn",
        "posix_spawnp"),
    *("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe"),
    *("spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe"),
    *("import_module", "__import__", "exec_module", "load_module", "spec_from_file_location",
        "entry_points"),
    *("run_module", "run_path", "exec", "CDLL", "PyDLL", "cdll", "LoadLibrary", "from_pretrained",
        "Unpickler"),
    *("broadcast_object_list", "scatter_object_list", "gather_object", "all_gather_object"),
}  # fmt: skip
OF_MODULES = {  # counted in these modules alone, as other code uses these names too
    "subprocess": {"run", "call"}, "platform": set(), "torch": {"load"}, "runpy": {"*"},
    "pickle": {"*"}, "marshal": {"loads", "load"}, "builtins": {"eval", "exec", "compile"},
    "multiprocessing": {"*"}, "pty": {"*"},
}  # fmt: skip


def calls(text: str) -> Iterator[str]:
    """The calls and imports in a file that start a process or load code."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [each.name for each in node.names]
            )
            yield from (
                module for module in modules if OF_MODULES.get(module.partition(".")[0]) == {"*"}
            )
        if isinstance(node, ast.ImportFrom) and node.module in OF_MODULES:
            yield from (each.name for each in node.names if each.name in OF_MODULES[node.module])
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            if node.func.id in NAMES | {"eval"}:
                yield node.func.id
        elif isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner != "platform" and (
                node.func.attr in NAMES or node.func.attr in OF_MODULES.get(owner, ())
            ):
                yield node.func.attr


def test_each_file_that_starts_or_loads_something_has_a_row() -> None:
    listed = re.findall(
        r"^\| `(swarm_node/[^`]+|protocol/[^`]+)` \|",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    files = [file for top in ("swarm_node", "protocol") for file in (ROOT / top).rglob("*.py")]
    found = {
        str(file.relative_to(ROOT))
        for file in files
        if list(calls(file.read_text(encoding="utf-8")))
    }
    # These call policy.loading, and Ray
    reads_through_others = {
        "swarm_node/hub/export.py",
        "swarm_node/simulation/engines/ray_cluster.py",
    }
    assert sorted(found | reads_through_others) == sorted(listed)


def test_a_new_call_would_be_found() -> None:
    for text in (
        "import subprocess\nsubprocess.run(['ls'])",
        "from subprocess import run\nrun(['ls'])",
        "from subprocess import Popen as P\nfrom os import system\nsystem('ls')",
        "import os\nos.execv('ls', [])",
        "import asyncio\nasyncio.create_subprocess_shell('ls')",
        "import importlib\nimportlib.import_module(name)",
        "__import__(name)",
        "eval(text)",
        "exec(text)",
        "import pickle\npickle.loads(data)",
        "from multiprocessing import get_context",
        "import torch\ntorch.load(file)",
        "import ctypes\nctypes.CDLL(path)",
        "AutoModel.from_pretrained(folder)",
    ):
        assert list(calls(text)), text
    assert not list(
        calls("import platform\nplatform.system()\nmodel.eval()\nserver.run()\njson.loads(x)")
    )
