"""The section `vllm`: generation by a vLLM server."""

from pathlib import Path
from typing import Annotated

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from swarm_node.settings.secret import AUTO, UNSHOWN, SecretUrl
from swarm_node.settings.sections import Grants, Program, Section, Text

SECRET_FLAGS = {"key", "token", "password", "secret"}  # last words of flags of vLLM that take one


class VllmConfig(Section):
    """Generate with a vLLM server instead of in this process."""

    url: SecretUrl = SecretUrl("")
    """auto: start a vLLM server for this node, watch it, and stop it in the end. Or the address of
    a server that is already running, such as http://127.0.0.1:8000; a user and password in it are
    never shown. Empty: generate in this process.
    """
    python: Program = ""
    """Python of the environment in which vLLM is installed, for a server that the node starts.
    Empty: the Python of this program.
    """
    arguments: Annotated[tuple[str, ...], Grants("arguments of a program")] = ()
    """More arguments for the server that the node starts, each as on vLLM's own command line. Put
    no key and no token here: vLLM has variables for these.
    """
    device: Text = ""
    """GPU for the server that the node starts, such as 1, as in CUDA_VISIBLE_DEVICES. Empty: a GPU
    other than the trainer's if there is one. Otherwise the server shares the trainer's GPU: it
    takes the memory that the plan leaves over, and sleeps while the node trains.
    """
    folder: Path = Path("~/.swarm-node/vllm")
    """Folder from which the server loads the model or the LoRA adapters. The node writes it after
    each update.
    """

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
