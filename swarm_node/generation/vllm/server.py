"""A vLLM server, and how weights get into it.

A node's own server runs on loopback; the node starts, watches and ends it. It is a child of a shell
that reads a pipe from this process. When this process ends, for whatever reason, the pipe closes
and the shell ends the server.

LoRA adapters are hot-loaded; all weights go through the folder that the server serves. CUDA IPC is
not used, as the server would unpickle what it gets.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import sleep
from types import MappingProxyType
from typing import Any

import torch

from swarm_node.common.awake import AwakeClock
from swarm_node.common.children import STARTS, ChildKilled, without_secrets
from swarm_node.common.files import open_to_write
from swarm_node.network.process.service import free_port
from swarm_node.policy.policy import Policy

STOP_SECONDS = 10.0  # that the server may take to end before the node or the shell kills it
POLL_SECONDS = 0.2
KEEPER = (
    'exec 3<&0; "$@" </dev/null & server=$!; (cat <&3 >/dev/null; kill $server; sleep '
    f"{STOP_SECONDS:.0f}; "
    'kill -9 -$$) 2>/dev/null & keeper=$!; wait "$server"; status=$?; kill "$keeper" 2>/dev/null; '
    'exit "$status"'
)
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # allows the calls that reload weights and forget prefixes
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# vLLM starts further Pythons with -m, which would take modules from the current folder
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
# On a CPU, a seed together with a chunked prefill ends the engine of vLLM 0.32.
CPU_ARGUMENTS = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192")
ADAPTER = "swarm-node"  # the name that the server knows our adapters by
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM takes as --max-lora-rank

Ask = Callable[..., dict[str, Any]]  # a path, a body, and `in_words`


class NoServer(Exception):
    """The server did not start, or has ended."""


class VllmServer:
    """Starts and ends a vLLM server: at most one process at a time."""

    def __init__(
        self,
        python: str,
        arguments: tuple[str, ...],
        on_cpu: bool,
        log: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`python`: of the environment that vLLM is installed in; `arguments`: of its server;
        `log`: the file for what the server prints; `environment`: more variables for it.
        """
        self._command = (
            python or sys.executable,
            "-P",
            "-m",
            "vllm.entrypoints.openai.api_server",
            *arguments,
        )
        self._command += CPU_ARGUMENTS if on_cpu else ()
        more = {**(CPU_ENVIRONMENT if on_cpu else {}), **environment}
        self._environment = without_secrets({**ENVIRONMENT, **SAFE_PATH, **more})
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.starts = 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self, healthy: Callable[[str], bool], seconds: float) -> None:
        """Starts a server on a free port, and waits until it is `healthy` at its address. NoServer
        where that takes more than `seconds`, or the server ends; one that a signal ended is started
        again a few times before.
        """
        for tries_left in reversed(range(STARTS)):
            try:
                return self._start(healthy, seconds)
            except NoServer as error:
                if not tries_left or not isinstance(error.__cause__, ChildKilled):
                    raise

    def _start(self, healthy: Callable[[str], bool], seconds: float) -> None:
        self.stop()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        listening = "--host", "127.0.0.1", "--port", str(port)
        command = ["/bin/sh", "-c", KEEPER, "sh", *self._command, *listening]
        with open_to_write(self._log, append=True) as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # Ctrl-C reaches only the node, which ends the server
            )
        self.starts += 1
        awake = AwakeClock()
        while not healthy(self.url):
            if not self.running or awake() > seconds:
                # The shell says 128 + N of a server that signal N ended
                status = self._process.poll() or 0
                self.stop()
                killed = ChildKilled("the vLLM server", 128 - status) if status > 128 else None
                raise NoServer(f"see {self._log}") from killed
            sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ends the server, and waits until it has ended. Nothing listens at its address then."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # what the server has left running
        process.wait()


def adapter_rank(policy: Policy) -> int:
    """The smallest value of --max-lora-rank that the policy's adapters fit in."""
    rank = max(int(config.r) for config in policy.model.peft_config.values())
    return next(most for most in RANKS if most >= rank)


class Weights:
    """Brings weights to a server. LoRA: the server has the base model, and loads the adapters in
    place of the last ones. All weights: the server reads the folder that it serves again.
    """

    def __init__(self, policy: Policy, folder: Path, dtype: torch.dtype | None) -> None:
        """`dtype`: the type that all weights are served in, where it is known."""
        self._policy, self._folder = policy, folder
        self._adapters = policy.has_adapters
        self._dtype = None if self._adapters else dtype

    @property
    def model(self) -> str:
        """The name of the model in a request."""
        return ADAPTER if self._adapters else str(self._folder)

    def write(self) -> None:
        """Writes the weights next to the folder, then moves each file into it, so that each file
        there is whole.
        """
        partial = self._folder.with_name(self._folder.name + ".partial")
        self._policy.save(partial, self._dtype)
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in partial.iterdir():
            file.replace(self._folder / file.name)
        shutil.rmtree(partial)

    def hand_over(self, ask: Ask) -> None:
        """Hands the present weights to the server. `ask` sends the server a request."""
        self.write()
        if self._adapters:
            adapter = {"lora_name": ADAPTER, "lora_path": str(self._folder), "load_inplace": True}
            ask("/v1/load_lora_adapter", adapter, in_words=True)
        else:
            ask("/collective_rpc", {"method": "reload_weights"})
