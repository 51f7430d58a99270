"""The section `vllm`: generation by a vLLM server."""

from pathlib import Path
from typing import Annotated

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from swarm_node.settings.secret import AUTO, UNSHOWN, SecretUrl
from swarm_node.settings.sections import Grants, Program, Section

SECRET_FLAGS = {"key", "token", "password", "secret"}  # last words of flags of vLLM that take one


class VllmConfig(Section):
    """Generate with a vLLM server instead of in this process."""

    url: SecretUrl = SecretUrl("")
    """auto: start a vLLM server for this node, watch it, and end it. Or the address of one that
    runs, e.g. http://127.0.0.1:8000; user and password in it are shown to nobody. Empty: generate
    in this process.
    """
    python: Program = ""
    """Python of the environment that vLLM is installed in, for a server that the node starts; empty
    for this one.
    """
    arguments: Annotated[tuple[str, ...], Grants("arguments of a program")] = ()
    """More arguments for the server that the node starts, each as vLLM's own command line has it.
    No key and no token: for these vLLM has variables.
    """
    folder: Path = Path("~/.swarm-node/vllm")
    """Folder that the server serves, or loads LoRA adapters from: written after each update."""

    @property
    def starts(self) -> bool:
        """Whether the node starts a server of its own."""
        return self.url.get_secret_value() == AUTO

    @field_validator("arguments")
    @classmethod
    def _no_secrets(cls, arguments: tuple[str, ...]) -> tuple[str, ...]:
        for argument in arguments:
            flag = argument.partition("=")[0]
            if flag.startswith("-") and flag.rpartition("-")[2] in SECRET_FLAGS:
                text = (
                    "must have no {flag}, which everybody on this machine could read: set the "
                    "variable {variable}"
                )
                variable = "HF_TOKEN" if "hf" in flag else "VLLM_API_KEY"
                raise PydanticCustomError(UNSHOWN, text, {"flag": flag, "variable": variable})
        return arguments
