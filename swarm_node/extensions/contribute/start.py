"""`swarm-node contribute`: joins a swarm, and gives it completions of a server or of a person."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

from protocol import limits
from swarm_node.commands.command import Command
from swarm_node.commands.home import load_identity, owned
from swarm_node.common.errors import UserError, printable
from swarm_node.environments.registry import build_environment, leaving
from swarm_node.extensions.contribute.api import ApiGenerator
from swarm_node.extensions.contribute.budget import Budget, take_key
from swarm_node.extensions.contribute.human import Human, Left
from swarm_node.extensions.contribute.session import Complete, Contributor
from swarm_node.extensions.page.settings import ObservedConfig
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process.messages import Rules
from swarm_node.network.transport.backends import check_addresses, check_installed
from swarm_node.node.rounds import Rounds
from swarm_node.settings import ContributeConfig, section_of
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.secret import Secret

TERMS = (
    "what the model generates is published, and others train on it: see that the terms of your provider and the "
    "licence of the model allow both"
)

PAGE = """\
usage: swarm-node contribute [CONFIG.toml] --api URL --model NAME [--flags]

Give a swarm completions without training: of a model behind a server that has
OpenAI's API (Ollama, llama.cpp, vLLM, LiteLLM, a provider), or what you type.

  --api URL                  such as http://127.0.0.1:11434/v1
  --model NAME               as the server calls it
  --human                    you answer, here, in place of a server
  --human --page             you answer in a browser
  --peers MULTIADDR ...      any running node
  --environment.tasks LIST   tasks of the swarm
  --samples N                completions per prompt (8)
  --requests-per-minute N    budget (60); also --tokens-per-minute (200000)
  --total-tokens N           of all (10000000); also --total-requests (20000)
  --key-file FILE            the server's key; else SWARM_NODE_API_KEY has it
  --home FOLDER              identity and budget (~/.swarm-node/contributor)

Stops on Ctrl-C. The key stands in no log and in no list of processes."""


def contribute(config: ContributeConfig, read: Callable[[], str], say: Callable[[str], None]) -> None:
    """Until `max_rounds`, Ctrl-C, or the person leaves. UserError."""
    home = config.home.expanduser()
    key = _key(config.key_file)
    with owned(home), ExitStack() as stack:
        identity = load_identity(home)
        environment = build_environment(config, prepare=True)
        stack.callback(environment.close)
        known = environment.catalogue.environments.items()
        rules = Rules(
            swarm=config.swarm,
            environments={name: (version, {d: tuple(c) for d, c in tasks.items()}) for name, (version, tasks) in known},
            max_completions=limits.MAX_COMPLETIONS,
            max_completion_chars=limits.MAX_COMPLETION_CHARS,
        )
        began = time.monotonic()
        network = RemoteNetwork(
            identity, home, config.network, rules, 0, lambda: _progress(contributor, began)
        )  # 0: it fetches nothing
        questions = 1 if config.human else config.questions
        contributor = Contributor(identity.peer_id, environment, network, Rounds(home / "rounds.json"), questions)
        complete, say = _completer(config, key, contributor, stack, read, say)
        network.start()
        stack.callback(network.close)
        say(f"contributor {identity.peer_id} in {home}")
        say(TERMS if config.api else "what you answer is published under this node's name, and others train on it")
        if told := leaving(config):
            say(told)
        with suppress(Left):
            _rounds(config, contributor, network, complete, say)
        say(f"stopped after {contributor.published} groups published")


def _rounds(
    config: ContributeConfig,
    contributor: Contributor,
    network: RemoteNetwork,
    complete: Complete,
    say: Callable[[str], None],
) -> None:
    done = 0
    while not config.max_rounds or done < config.max_rounds:
        began = time.monotonic()
        published = contributor.round(complete)
        done += 1
        for text, _ in network.lines():
            say(printable(text, 400))
        skipped = ", ".join(f"{count} {reason}" for reason, count in contributor.skipped.items())
        say(f"round {done}: {published} groups published, {contributor.published} in all{skipped and f'; {skipped}'}")
        _pause(0.0 if config.human else config.round_seconds - (time.monotonic() - began))


def _completer(
    config: ContributeConfig,
    key: Secret,
    contributor: Contributor,
    stack: ExitStack,
    read: Callable[[], str],
    say: Callable[[str], None],
) -> tuple[Complete, Callable[[str], None]]:
    """Who completes a prompt, and who is told what happens."""
    page = _page(config)
    if page.listen:
        from swarm_node.extensions.contribute.browser import shown_in_browser
        from swarm_node.extensions.contribute.desk import Desk

        desk = Desk(config.samples, lambda: contributor.published)
        stack.enter_context(shown_in_browser(desk, config.home.expanduser(), page.listen, page.names, say))

        def tell(text: str) -> None:
            desk.say(text)
            say(text)

        return lambda question, prompt: desk.drafts(question, prompt, contributor.score), tell
    if config.human:
        human = Human(read, say, config.samples)
        return lambda question, prompt: human.drafts(question, prompt, contributor.score), say
    budget = Budget(config, config.home.expanduser() / "budget.json", time.time)
    api = ApiGenerator(config, key, budget, _pause, say, Random(), time.time)
    stack.callback(api.close)
    return lambda question, prompt: api.complete(prompt), say


def _page(config: ContributeConfig) -> ObservedConfig:
    return section_of(config, ObservedConfig)


def _progress(contributor: Contributor, began: float) -> dict[str, object]:
    return {"seconds_since": 0.0, "published": contributor.published, "uptime": round(time.monotonic() - began, 1)}


def _key(file: Path | None) -> Secret:
    try:
        return take_key(file)
    except OSError as error:
        raise UserError(f"key file {file}: {error.strerror}") from error


def _line() -> str:
    """What the person types. EOFError at the end of it."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _pause(seconds: float) -> None:
    """Ctrl-C ends it."""
    if seconds > 0:
        threading.Event().wait(seconds)


def command(argv: list[str]) -> None:
    """Runs until it is told to stop."""
    config = from_command_line(ContributeConfig, argv, "swarm-node contribute")
    if config.human == bool(config.api):
        raise UserError("name a server, --api URL --model NAME, or answer yourself with --human")
    if _page(config).listen and not config.human:
        raise UserError("--page of a contributor is where a person answers: add --human")
    check_addresses(config.network)
    if config.network.enabled:
        check_installed(config.network.backend)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it says goodbye as it does on Ctrl-C
    try:
        contribute(config, _line, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        print("stopped", flush=True)


CONTRIBUTE = Command(ContributeConfig, PAGE, command)
