"""`swarm-node contribute`: joins a swarm, and publishes completions that a server's model
generates, or that a person writes.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from random import Random

from protocol import codec
from protocol.limits import MAX_ROUND
from protocol.messages import Episode, PeerId, Question, RolloutGroup, Round
from swarm_node.common.batched import paired
from swarm_node.common.errors import UserError, printable, reason_of
from swarm_node.contribute.api import ApiGenerator
from swarm_node.contribute.budget import Budget
from swarm_node.contribute.desk import Desk, Left, how_scored
from swarm_node.environments.registry import build_environment, leaving
from swarm_node.environments.scored import Rewards, rewards_of_texts
from swarm_node.home.folder import load_identity, owned
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process.messages import Rules
from swarm_node.node.rounds import RoundCounter
from swarm_node.rollouts.groups import Group, Skipped, all_equal
from swarm_node.rollouts.interfaces import Environment, Network
from swarm_node.settings.contribute import ContributeConfig
from swarm_node.settings.secret import Secret

KEY_VARIABLE = "SWARM_NODE_API_KEY"
TERMS = (
    "what the model generates is published, and others train on it: "
    "see that the terms of your provider and the licence of the model allow both"
)
TERMS_OF_A_PERSON = "what you answer is published under this node's name, and others train on it"
MANY = 8  # uninformative groups in a row before the first warning
EXAMPLE = 60  # characters shown of a completion
SAME_TEXT, ALL_WRONG, ALL_RIGHT, AS_GOOD = (
    "of one text",
    "all wrong",
    "all right",
    "of equal reward",
)
TOO_LONG = "of more text than a message holds"
EASIER = "name easier tasks, or tell the model with --environment.system how to answer"
SEVERAL = Skipped("question of several turns: swarm-node run plays them")
REMEDIES = {  # why a group is not published -> what to change
    SAME_TEXT: "raise --temperature",
    ALL_WRONG: EASIER,
    AS_GOOD: EASIER,
    ALL_RIGHT: "name harder tasks",
    TOO_LONG: "lower --samples or --max-tokens",
}

Complete = Callable[[str], tuple[Episode, ...] | Skipped]
# Shows a desk in a browser, as long as the context lasts
Show = Callable[[Desk, ContributeConfig, Callable[[str], None]], AbstractContextManager[None]]


class Contributor:
    """The rounds of a contributor: it asks a server the questions of its own address, scores the
    completions here, and publishes the groups whose completions differ in reward. It signs like any
    other node, and trains nothing.
    """

    def __init__(
        self,
        peer_id: PeerId,
        environment: Environment,
        network: Network,
        rounds: RoundCounter,
        questions: int,
    ) -> None:
        self._peer_id, self._environment, self._network = peer_id, environment, network
        self._rounds, self._questions = rounds, questions
        self.published = 0
        # What the completions are wanted of now, and names of the groups that were published last:
        # their content hashes
        self.asking: Question | None = None
        self.newest: tuple[str, ...] = ()
        self.skipped: Counter[str] = Counter()
        self._in_vain: Counter[str] = Counter()  # reason -> groups since the last published one
        self._told = 0  # how many of these groups there were at the last warning
        self._example = ""  # a completion of the last of these groups

    def round(self, complete: Complete) -> int:
        """Asks, scores and publishes the questions of one round. Returns the number of groups
        published.
        """
        now = self._rounds.begin()
        self._network.collect(now)  # external groups are dropped, so that they do not pile up
        questions = self._environment.sample(self._peer_id, now, self._questions)
        groups: list[Group] = []
        for question, prompt in paired(questions, self._environment.prompts(questions)):
            self.asking = question
            group = self._group_of(question, prompt, complete, now)
            if isinstance(group, Skipped):
                self.skipped[group.reason] += 1
                self._in_vain.update([group.reason] if group.reason in REMEDIES else [])
                continue
            self._in_vain, self._told = Counter(), 0
            groups.append(group)
        messages = [group.message() for group in groups]
        # Without groups there is nothing to announce, and this node wants none of others
        if messages:
            self._network.publish(messages, now)
        self.newest = tuple(map(name_of, messages))
        self.published += len(groups)
        return len(groups)

    def score(self, texts: Sequence[str]) -> Rewards:
        """The rewards of these answers to the question that is asked now, as every node of the
        swarm computes them.
        """
        assert self.asking is not None
        (rewards,) = rewards_of_texts(self._environment, [(self.asking, texts)])
        return rewards

    def fits(self, texts: Sequence[str]) -> bool:
        """Whether these answers to the question that is asked now fit into one message."""
        assert self.asking is not None
        # A message has two completions at least
        together = texts if len(texts) > 1 else (*texts, "")
        completions = tuple(Episode.of(text=text, ended=True) for text in together)
        last = Round(MAX_ROUND)  # no round has a longer number
        return _travels(Group.of_text(self._peer_id, last, self.asking, completions).message())

    def task(self) -> str:
        """The task of the question that is asked now."""
        return f"{self.asking.dataset}/{self.asking.config_id}" if self.asking else ""

    def why_in_vain(self) -> str:
        """A warning with a remedy after MANY groups in a row that teach nothing or are too long,
        and at each doubling; else "".
        """
        if (many := self._in_vain.total()) < max(MANY, 2 * self._told):
            return ""
        self._told = many
        found = ", ".join(f"{count} {reason}" for reason, count in self._in_vain.most_common())
        (reason, _), *_ = self._in_vain.most_common(1)
        return (
            f"{many} groups in a row were not published, {found}, such as {self._example!r}: "
            f"{REMEDIES[reason]}"
        )

    def _group_of(
        self, question: Question, prompt: str | Skipped, complete: Complete, now: Round
    ) -> Group | Skipped:
        """The completions of one question with their rewards, if they are worth publishing."""
        if isinstance(prompt, Skipped):
            return prompt
        if self._environment.catalogue.turns(question) > 1:
            return SEVERAL
        completions = complete(prompt)
        if isinstance(completions, Skipped):
            return completions
        return self._informative(question, completions, now)

    def _informative(
        self, question: Question, completions: tuple[Episode, ...], now: Round
    ) -> Group | Skipped:
        if len(completions) < 2:
            return Skipped("one completion")
        texts = [completion.text for completion in completions]
        rewards = self.score(texts)
        if isinstance(rewards, Skipped):
            return rewards
        if all_equal(rewards):
            self._example = printable(completions[0].text, EXAMPLE)
            alike = len({completion.text for completion in completions}) == 1
            return Skipped(
                SAME_TEXT if alike else {0.0: ALL_WRONG, 1.0: ALL_RIGHT}.get(rewards[0], AS_GOOD)
            )
        group = Group.of_text(self._peer_id, now, question, completions)
        if not _travels(group.message()):
            self._example = printable(completions[0].text, EXAMPLE)
            return Skipped(TOO_LONG)
        return group


def _travels(message: RolloutGroup) -> bool:
    """Whether a group is small enough for a message."""
    try:
        codec.encode(message)
    except ValueError:
        return False
    return True


def name_of(message: RolloutGroup) -> str:
    """The content hash of a group, by which nodes tell each other of it."""
    return codec.to_text(codec.content_hash(codec.encode(message)))


def contribute(
    config: ContributeConfig, say: Callable[[str], None], show: Show | None = None
) -> None:
    """Contributes until `max_rounds` rounds are done, until Ctrl-C or, where a person answers,
    until the person leaves. UserError. `show`: shows the desk at which a person answers; needed
    with `human` alone.
    """
    home = config.home.expanduser()
    key = Secret("") if config.human else take_key(config.key_file)
    with owned(home), ExitStack() as stack:
        identity = load_identity(home)
        environment = build_environment(config, prepare=True)
        stack.callback(environment.close)
        rules = Rules.of(config.swarm, environment.catalogue)
        began = time.monotonic()

        def progress() -> dict[str, object]:
            uptime = round(time.monotonic() - began, 1)
            return {"seconds_since": 0.0, "published": contributor.published, "uptime": uptime}

        # 0: it wants no external groups
        network = RemoteNetwork(identity, home, config.network, rules, 0, progress)
        rounds = RoundCounter(home / "rounds.json")
        questions = 1 if config.human else config.questions
        contributor = Contributor(identity.peer_id, environment, network, rounds, questions)
        network.start()
        stack.callback(network.close)
        say(f"contributor {identity.peer_id} in {home}")
        say(TERMS_OF_A_PERSON if config.human else TERMS)
        if told := leaving(config):
            say(told)

        def hear() -> list[str]:
            lines = [printable(text, 400) for text, _ in network.lines()]
            for line in lines:
                say(line)
            return lines

        if config.human:
            assert show is not None
            desk = Desk(config.samples, how_scored(config.environment), contributor, hear)
            stack.enter_context(show(desk, config, say))
            _answer_questions(config, contributor, desk)
        else:
            budget = Budget(config, home / "budget.json", time.time)
            api = ApiGenerator(config, key, budget, _pause, say, Random(), time.time)
            stack.callback(api.close)
            _rounds(config, contributor, network, api, say)
        say(f"stopped after {contributor.published} groups published")


def _answer_questions(config: ContributeConfig, contributor: Contributor, desk: Desk) -> None:
    """Asks the person at the desk one question after another."""
    done = 0
    while not config.max_rounds or done < config.max_rounds:
        try:
            contributor.round(desk.complete)
        except Left:
            return
        done += 1
        for name in contributor.newest:
            desk.published(name)


def _rounds(
    config: ContributeConfig,
    contributor: Contributor,
    network: RemoteNetwork,
    api: ApiGenerator,
    say: Callable[[str], None],
) -> None:
    done = 0
    while not config.max_rounds or done < config.max_rounds:
        began = time.monotonic()
        published = contributor.round(api.complete)
        done += 1
        for text, _ in network.lines():
            say(printable(text, 400))
        skipped = ", ".join(f"{count} {reason}" for reason, count in contributor.skipped.items())
        say(
            f"round {done}: {published} groups published, {contributor.published} in "
            f"all{skipped and f'; {skipped}'}"
        )
        if told := contributor.why_in_vain():
            say(told)
        _pause(config.round_seconds - (time.monotonic() - began))


def take_key(file: Path | None) -> Secret:
    """The server's key. It is taken out of the environment, so that no process started later
    inherits it. UserError.
    """
    key = os.environ.pop(KEY_VARIABLE, "")
    source = f"key file {file}" if file else KEY_VARIABLE
    try:
        # With the mark that some editors put before the text
        key = file.expanduser().read_text(encoding="utf-8-sig") if file else key
    except OSError as error:
        raise UserError(
            f"key file {file}: {reason_of(error)}; correct --key-file, or make it readable"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"key file {file} is not text: its first line is the server's key"
        ) from error
    if file and not key.strip():
        raise UserError(
            f"key file {file} is empty: its first line is the server's key; write it there, or "
            "leave off --key-file"
        )
    lines = key.strip().splitlines()
    first = lines[0].strip().removeprefix("Bearer ").strip() if lines else ""
    # Quotes belong to a shell, and no header holds the others
    bad = next((char for char in first if not "!" <= char <= "~" or char in "\"'"), "")
    if bad:
        number = first.index(bad) + 1
        raise UserError(
            f"{source}: character {number} of the key is {_named(bad)}, which no key has: copy "
            "the key again, without quotes and spaces"
        )
    return Secret(first)


def _named(char: str) -> str:
    """What this character is, without showing a part of a key."""
    if char in "\"'":
        return "a quotation mark"
    if char == " ":
        return "a space"
    return "none of ASCII" if char > "~" else "a control character"


def _pause(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)
