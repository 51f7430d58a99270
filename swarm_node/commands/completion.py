"""`swarm-node completion`: a script that lets a shell complete commands and options, made by tyro."""

from typing import Literal

import tyro
from tyro.conf import Positional
from tyro.extras import SubcommandApp

from swarm_node.commands.table import COMMANDS, Command, load

PAGE = """\
usage: swarm-node completion bash|zsh|fish

Print a script with which the shell completes commands and options.

  bash   eval "$(swarm-node completion bash)"        in ~/.bashrc
  zsh    eval "$(swarm-node completion zsh)"         in ~/.zshrc, after compinit
  fish   swarm-node completion fish | source         in ~/.config/fish/config.fish

Quicker at the start of every shell: write it to a file once and source that."""


def complete(shell: Positional[Literal["bash", "zsh", "fish"]]) -> None:
    """Print a script with which the shell completes commands and options."""
    app = SubcommandApp()
    for name in COMMANDS:
        app.command(load(name).options, name=name, is_default=name == "run")
    app.cli(prog="swarm-node", args=["--tyro-print-completion", shell])


def command(argv: list[str]) -> None:
    tyro.cli(complete, args=argv, prog="swarm-node completion")


COMPLETION = Command(complete, PAGE, command)
