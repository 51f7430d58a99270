"""`swarm-node contribute`: puts completions of a model behind an API, or answers of a person, into
a swarm. Loads no torch.
"""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager

from swarm_node.commands.status import ask
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError
from swarm_node.contribute.desk import Desk
from swarm_node.contribute.start import contribute
from swarm_node.network.transport.backends import check_addresses
from swarm_node.network.transport.libraries import check_installed
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.contribute import ContributeConfig

PAGE = """\
usage: swarm-node contribute [CONFIG.toml] --api URL --model NAME [--flags]
       swarm-node contribute [CONFIG.toml] --human [--flags]

Shares completions of a model behind an API, without training. The server needs
an OpenAI-compatible API (Ollama, llama.cpp, vLLM, LiteLLM, or a provider).
With --human you answer yourself, in a browser.

  --api URL                  such as http://127.0.0.1:11434/v1
  --model NAME               name of the model on that server
  --human                    answer yourself; the address of the page is printed
  --listen HOST:PORT         where that page is (127.0.0.1:8420)
  --peers MULTIADDR ...      addresses of one or more running nodes
  --environment.tasks LIST   tasks of the swarm
  --samples N                completions per prompt (8)
  --temperature, --stop      how completions are sampled, and where they end
  --environment.system TEXT  what the model is told before each prompt
  --no-thinking              ask a model that thinks not to do so
  --requests-per-minute N    budget (60), as is --tokens-per-minute (200000)
  --total-tokens N           budget (10000000), as is --total-requests (20000)
  --key-file FILE            key of the server; or set SWARM_NODE_API_KEY
  --home FOLDER              identity and budget (~/.swarm-node/contributor)

Ctrl-C stops it. The key appears in no log and in no list of processes."""


def command(argv: list[str]) -> None:
    """Runs until it is told to stop."""
    config = from_command_line(ContributeConfig, argv, "swarm-node contribute")
    _check_who_answers(config)
    check_addresses(config.network)
    if config.network.enabled:
        check_installed(config.network.backend)
    # The node says goodbye to its peers as on Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        contribute(config, lambda line: print(line, flush=True), _shown)
    except KeyboardInterrupt:
        print("stopped", flush=True)


def _check_who_answers(config: ContributeConfig) -> None:
    """UserError unless it is either a person or a model behind an API."""
    api = config.api.get_secret_value()
    if config.human and (api or config.model):
        raise UserError(
            "either you answer or a model does: leave out --human, or --api and --model"
        )
    if not config.human and (not api.startswith(("http://", "https://")) or not config.model):
        raise UserError(
            "contribute needs a server and a model: --api http://127.0.0.1:11434/v1 --model NAME; "
            "or answer yourself with --human"
        )


def _shown(
    desk: Desk, config: ContributeConfig, say: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Shows the desk in a browser as long as the context lasts. The page's library is loaded only
    here: a model needs none.
    """
    from swarm_node.page.person import shown_in_browser

    home = config.home.expanduser()
    return shown_in_browser(desk, home, config.listen, config.names, ask, say)


CONTRIBUTE = Command(ContributeConfig, PAGE, command)
