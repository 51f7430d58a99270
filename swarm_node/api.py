"""What a script or a notebook does in place of a command: join a swarm, publish, collect, score.

`swarm_node` exports these names, among others. docs/how-to/python.md shows them at work.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from protocol.messages import Episode, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import rewards_of_texts
from swarm_node.home.folder import load_identity, owned
from swarm_node.network.client import build_network
from swarm_node.network.transport.backends import check_addresses
from swarm_node.network.transport.libraries import check_installed
from swarm_node.node.round import score_external
from swarm_node.node.rounds import RoundCounter
from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.settings import NodeConfig
from swarm_node.settings.of_script import combined
from swarm_node.swarm.joining import follow_card


class Swarm:
    """A place in a swarm, without a model: the script that holds it generates and trains. Close it
    after use.

    >>> with join(NodeConfig(home="me", swarm="ours")) as swarm:
    ...     questions = swarm.questions(4)
    ...     prompts = swarm.prompts(questions)
    """

    def __init__(self, config: NodeConfig) -> None:
        config = follow_card(config, lambda line: None, keep=True)
        check_addresses(config.network)
        if config.network.enabled:
            check_installed(config.network.backend)
        home = config.home.expanduser()
        with ExitStack() as stack:
            stack.enter_context(owned(home))
            identity = load_identity(home)
            self._environment = build_environment(config, prepare=True)
            stack.callback(self._environment.close)
            facts, today = (lambda: {"seconds_since": 0.0}), time.time
            self._network = build_network(config, identity, self._environment, facts, today)
            self._network.start()
            stack.callback(self._network.close)
            self.peer_id = identity.peer_id
            self._rounds = RoundCounter(home / "rounds.json")
            self._of: dict[Question, Round] = {}  # local questions -> their rounds
            self._stack = stack.pop_all()

    def questions(self, count: int) -> list[Question]:
        """Begins a new round of this peer, and returns the addresses of its `count` questions: at
        most 256.
        """
        now = self._rounds.begin()
        questions = self._environment.sample(self.peer_id, now, count)
        self._of.update(dict.fromkeys(questions, now))
        return questions

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        """The text of each question; `Skipped` where it cannot be rebuilt."""
        return self._environment.prompts(questions)

    def score(self, question: Question, completions: Sequence[str]) -> tuple[float, ...] | Skipped:
        """Rewards in [0, 1], as every peer gives them; `Skipped` where the verifier failed."""
        return rewards_of_texts(self._environment, [(question, completions)])[0]

    def publish(self, completed: Mapping[Question, Sequence[str | Episode]]) -> list[Group]:
        """Score completions of local questions of one round, offer the informative groups to peers,
        and return these groups. A text counts as ended by the model itself; give an Episode where
        it was cut off. Each call also asks peers for the external groups of one more round.
        UserError for other questions.
        """
        rounds = {self._of[question] for question in completed if question in self._of}
        if len(rounds) != 1 or any(question not in self._of for question in completed):
            raise UserError(
                "publish takes the questions of one round of this peer: pass those that "
                "`questions` returned"
            )
        (now,) = rounds
        groups = []
        for question, completions in completed.items():
            episodes = map(_episode, completions)
            group = Group.of_text(self.peer_id, now, question, episodes)
            if (scored := self._scored(group)) is not None:
                groups.append(scored)
        # Even if empty: it asks for external groups
        self._network.publish([group.message() for group in groups], now)
        return groups

    def collect(self) -> list[Group]:
        """Informative external groups that have arrived since the last call, scored here."""
        groups = []
        for external in self._network.collect(Round(self._rounds.next)):
            scored = self._scored(external)
            self._network.verdict(external, scored is not None)
            if scored is not None:
                groups.append(scored)
        return groups

    def is_local(self, question: Question) -> bool:
        """Whether `questions` of this peer gave this question."""
        return question in self._of

    @property
    def connected(self) -> int:
        """How many peers this node is connected to, as of a few seconds ago."""
        return self._network.connected

    def close(self) -> None:
        """Leave the swarm, end the processes that were started, and unlock the home."""
        self._stack.close()

    def __enter__(self) -> "Swarm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _scored(self, group: Group) -> Group | None:
        (scored,) = score_external(self._environment, [group])
        return scored if isinstance(scored, Group) and scored.informative else None


def _episode(completion: str | Episode) -> Episode:
    if isinstance(completion, Episode):
        return completion
    return Episode.of(text=completion, ended=True)


def join(config: NodeConfig | Path | str | None = None, **options: Any) -> Swarm:
    """A place in a swarm, by a configuration, its file or the name of a shipped one; `options` set
    single options. UserError, in one line, for a mistake in any of them. Where nothing names the
    home, a line on stderr says which one is made.
    """
    return Swarm(configured(config, options))


def configured(config: NodeConfig | Path | str | None, options: Mapping[str, Any]) -> NodeConfig:
    """The configuration that the arguments of `join` mean. UserError for a mistake in them."""
    made = combined(NodeConfig, config, options)
    home = made.home.expanduser()
    if "home" not in made.model_fields_set and not home.exists():
        sys.stderr.write(f"swarm-node: makes a home in {home}; name another by home=...\n")
    return made
