"""A vLLM server, and how weights get into it.

One of our own is started, watched and ended by the node, on loopback. It is a child of a shell that reads our end of a
pipe: when this process is gone, however it went, the pipe closes and the shell ends the server.

LoRA adapters are hot-loaded, all weights come by the folder that it serves. By CUDA IPC the server would unpickle what
it is sent.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import torch

from swarm_node.common.children import without_secrets
from swarm_node.common.files import open_to_write
from swarm_node.network.process.service import free_port
from swarm_node.policy.policy import Policy

STOP_SECONDS = 10.0  # that it may take to end, by its own node or by the shell
POLL_SECONDS = 0.2
KEEPER = (
    f'exec 3<&0; "$@" </dev/null & server=$!; (cat <&3 >/dev/null; kill $server; sleep {STOP_SECONDS:.0f}; '
    'kill -9 -$$) 2>/dev/null & keeper=$!; wait "$server"; status=$?; kill "$keeper" 2>/dev/null; exit "$status"'
)
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # the calls that reload weights and forget prefixes
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_NO_USAGE_STATS": "1",  # tells nobody
}
CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
# On a CPU a seed together with a prefill in chunks ends the engine of 0.32.
CPU_ARGUMENTS = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192")
ADAPTER = "swarm-node"  # the name that the server knows our adapters by
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM takes as the largest

Ask = Callable[..., dict[str, Any]]  # a path, a body, and `in_words`


class NoServer(Exception):
    """It did not start, or does not run any more."""


class VllmServer:
    """At most one server process at a time."""

    def __init__(self, python: str, arguments: tuple[str, ...], on_cpu: bool, log: Path) -> None:
        """`python` of the environment that vLLM is installed in; `arguments` of its server; `log` takes what it
        prints."""
        self._command = (python or sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server", *arguments)
        self._command += CPU_ARGUMENTS if on_cpu else ()
        self._environment = without_secrets({**ENVIRONMENT, **(CPU_ENVIRONMENT if on_cpu else {})})
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
        """Start one on a free port, and wait until it is `healthy` at its address. NoServer where that takes longer, or
        it ends."""
        self.stop()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open_to_write(self._log, append=True) as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "sh", *self._command, "--host", "127.0.0.1", "--port", str(port)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the node, which ends it then
            )
        self.starts += 1
        end = monotonic() + seconds
        while not healthy(self.url):
            if not self.running or monotonic() > end:
                self.stop()
                raise NoServer(f"see {self._log}")
            sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End it, and wait. Its address is nobody's then."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever it has left
        process.wait()


def has_adapters(policy: Policy) -> bool:
    """Whether LoRA adapters are trained, not all weights."""
    return hasattr(policy.model, "disable_adapter")


def adapter_rank(policy: Policy) -> int:
    """The smallest largest rank that holds the policy's adapters."""
    rank = max(int(config.r) for config in policy.model.peft_config.values())
    return next(most for most in RANKS if most >= rank)


class Weights:
    """LoRA: the server has the base, and loads the adapters in the place of the last ones. All weights: it reads the
    folder that it serves again."""

    def __init__(self, policy: Policy, folder: Path, dtype: torch.dtype | None) -> None:
        """`dtype`: the type that all weights are served in, where it is known."""
        self._policy, self._folder = policy, folder
        self._adapters = has_adapters(policy)
        self._dtype = None if self._adapters else dtype

    @property
    def model(self) -> str:
        """The name of the model in a request."""
        return ADAPTER if self._adapters else str(self._folder)

    def write(self) -> None:
        """Beside the folder first, so that each file in it is whole."""
        partial = self._folder.with_name(self._folder.name + ".partial")
        self._policy.save(partial, self._dtype)
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in partial.iterdir():
            file.replace(self._folder / file.name)
        shutil.rmtree(partial)

    def hand_over(self, ask: Ask) -> None:
        """The present weights, to the server that `ask` asks."""
        self.write()
        if self._adapters:
            adapter = {"lora_name": ADAPTER, "lora_path": str(self._folder), "load_inplace": True}
            ask("/v1/load_lora_adapter", adapter, in_words=True)
        else:
            ask("/collective_rpc", {"method": "reload_weights"})
