"""`swarm-node completion`: a script that lets a shell complete commands and options, made by tyro."""

import io
from contextlib import redirect_stdout, suppress
from typing import Literal, get_args

import tyro
from tyro.conf import Positional
from tyro.extras import SubcommandApp

from swarm_node.commands.command import Command
from swarm_node.commands.table import entries, load
from swarm_node.common.errors import UserError
from swarm_node.common.printable import printable
from swarm_node.settings.extended import with_sections
from swarm_node.settings.sources import FLAGS

PAGE = """\
usage: swarm-node completion bash|zsh|fish

Print a script with which the shell completes commands and options. Say once:

  bash   swarm-node completion bash > ~/.swarm-node.bash
         echo 'source ~/.swarm-node.bash' >> ~/.bashrc
  zsh    swarm-node completion zsh > FOLDER/_swarm-node    (FOLDER is in $fpath)
  fish   swarm-node completion fish > FILE
         (FILE is ~/.config/fish/completions/swarm-node.fish)"""

FILES = """
# tyro completes no positional arguments: where nothing else fits, files do.
_swarm_node() {
  _tyro_swarm_node
  if [[ -z "${COMPREPLY[0]}" ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}
complete -F _swarm_node swarm-node"""

FISH_ARGUMENT = '($python_cmd -c "$pycode" $words $current)'  # our options are more than Linux allows in an argument
FISH_INPUT = '(printf "%s" "$pycode" | $python_cmd - $words $current)'


SHELLS = Literal["bash", "zsh", "fish"]


def complete(shell: Positional[SHELLS]) -> None:
    """Print a script with which the shell completes commands and options."""
    app = SubcommandApp()
    for name, entry in entries().items():
        options = load(entry).options
        app.command(name=name)(with_sections(options) if isinstance(options, type) else options)
    script = io.StringIO()
    with redirect_stdout(script), suppress(SystemExit):  # with which tyro ends
        app.cli(prog="swarm-node", args=["--tyro-print-completion", shell], registry=FLAGS)
    print(script.getvalue().replace(FISH_ARGUMENT, FISH_INPUT) + (FILES if shell == "bash" else ""))


def command(argv: list[str]) -> None:
    """Prints the script."""
    if argv == ["--help"]:
        tyro.cli(complete, args=argv, prog="swarm-node completion")
    shells = get_args(SHELLS)
    if len(argv) != 1 or argv[0] not in shells:
        given = f", not {printable(' '.join(argv))!r}" if argv else ""
        raise UserError(f"name the shell: swarm-node completion {'|'.join(shells)}{given}")
    complete(argv[0])  # type: ignore[arg-type]


COMPLETION = Command(complete, PAGE, command)
