"""Starts Python programs in processes that have torch loaded already: a start costs 0.1 s of CPU
time, not 5.

Most of what a command costs in a test is the import of torch and transformers. So each worker of
pytest keeps one process that has imported them and forks for each command. What a test starts is a
small launcher, which hands over its arguments, folder, environment and streams, forwards signals,
and ends as the command ends; when it is killed, so is the command. The program itself runs as
`python -m` would run it. A test of how a program starts uses the plain interpreter.
"""

import array
import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

GIVEN = dict(os.environ)  # before libraries add to it
READ_AT_IMPORT = ("HF_", "TRANSFORMERS_", "TORCH", "CUDA", "PYTHON", "TRITON")
# Set in a worker by the first test that compiles: starts ignore it
SET_BY_TORCH = "TORCHINDUCTOR_CACHE_DIR"
HASH_SEED = "0"  # as in workers of simulations, whose results must be equal from run to run
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAUNCHER = f"""
import array, json, os, signal, socket, sys
where, word = sys.argv[1], json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
server = socket.socket(socket.AF_UNIX)
server.connect(where)
pipe = [int(sys.argv[-1])] if sys.argv[-2].endswith("simulation.worker") else []
streams = array.array("i", [0, 1, 2, *pipe])
server.sendmsg([len(word).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(word)
for number in {[*map(int, FORWARDED)]}:
    signal.signal(number, lambda number, _: server.send(bytes([number])))
code = int.from_bytes(server.recv(4) or b"\\0\\0\\0\\xff", "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
SHELL = """#!/bin/sh
case " $* " in
*" -m swarm_node.simulation.worker "*) exec {python} -I -S {launcher} {where} "$@" ;;
esac
exec {python} "$@"
"""


def python() -> list[str]:
    """What to put in place of `sys.executable` before `-m MODULE`."""
    folder = _server()
    return [sys.executable, "-I", "-S", str(folder / "launcher.py"), str(folder / "socket")]


@cache
def _server() -> Path:
    """Starts the server of this process, once. Returns its folder."""
    folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
    launcher, where, shell = folder / "launcher.py", folder / "socket", folder / "python"
    launcher.write_text(LAUNCHER)
    shell.write_text(SHELL.format(python=sys.executable, launcher=launcher, where=where))
    shell.chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(where))
    listener.listen(64)
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "tests.preloaded", str(listener.fileno()), str(shell)]
    with open(folder / "log", "wb") as log:  # bitsandbytes prints when it is imported
        process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    listener.close()
    atexit.register(process.kill)
    return folder


def serve(listener: socket.socket, shell: str) -> None:
    """Forks for each connection, until pytest has gone. `shell`: what children take for the
    interpreter.
    """
    import torch

    import swarm_node.node.build  # noqa: F401  with all libraries that a node loads

    for name in [
        name for name in sys.modules if name.partition(".")[0] in ("swarm_node", "protocol")
    ]:
        del sys.modules[name]  # each start imports the node's own modules
    torch.set_num_threads(1)
    gc.freeze()  # a child need not look at all of this again, nor copy its pages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if select.select([listener, 0], [], [])[0] == [0]:
            return  # pytest has gone
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            try:
                handle(connection, shell)
            finally:
                os._exit(1)
        connection.close()


def handle(connection: socket.socket, shell: str) -> None:
    """Runs what the launcher asks for in a child, and tells the launcher how the child ended."""
    streams = array.array("i")
    size, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(4 * streams.itemsize))
    streams.frombytes(ancillary[0][2])
    word = b""
    while len(word) < int.from_bytes(size, "big"):
        word += connection.recv(1 << 20)
    arguments, folder, environment = json.loads(word)
    child = os.fork()
    if child == 0:
        connection.close()
        # The socket to its parent
        arguments[len(arguments) - len(streams[3:]) :] = map(str, streams[3:])
        replace_streams(list(streams[:3]))
        os.chdir(folder)
        run(arguments, environment, shell)
    for number in (0, 1, 2, *streams):
        os.close(number)
    ended = os.pidfd_open(child)
    while ended not in (ready := select.select([connection, ended], [], [])[0]):
        asked = connection.recv(1) if connection in ready else b""
        os.kill(child, asked[0] if asked else signal.SIGKILL)
        if not asked:
            break  # the launcher was killed
    _, status = os.waitpid(child, 0)
    connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def replace_streams(streams: list[int]) -> None:
    """Makes these descriptors standard input, output and errors."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)


def run(arguments: list[str], environment: dict[str, str], shell: str) -> NoReturn:
    """Runs `python [-P] -m MODULE ARGUMENTS` in this process; in a new one if the environment
    differs in what libraries read when they are imported.
    """
    if _read_at_import(environment) != _read_at_import(GIVEN):
        os.execve(sys.executable, [sys.executable, *arguments], environment)
    os.environ.clear()
    os.environ.update(environment)
    sys.modules["torch"].set_num_threads(int(environment.get("OMP_NUM_THREADS", 1)))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    safe = arguments[0] == "-P"
    _, module, *rest = arguments[safe:]
    sys.path[0:1] = [] if safe else [os.getcwd()]
    sys.argv, sys.executable = ["-m", *rest], shell
    code: Any = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        code = leaving.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:  # noqa: BLE001  shown, as the interpreter would
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _read_at_import(environment: Any) -> dict[str, str]:
    read = {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}
    read.pop(SET_BY_TORCH, None)
    return {**read, "PYTHONHASHSEED": read.get("PYTHONHASHSEED", HASH_SEED)}


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
