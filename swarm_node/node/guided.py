"""Guided groups: this node's own completions behind the beginning of a peer's right one.

A model that is never right at a task explores in vain: all its groups are all wrong. Training on a
peer's right completion helps, but its text is the peer's, and this model may never write anything
like it. Between the two stands the way of POPE (arXiv 2601.18779), with an oracle there and a peer
here: the first characters of a right completion continue the prompt, and the model goes on from
there by itself.

        prompt of a peer's question | beginning of a peer's right completion | what this node writes
        fed                         | fed, no gradient                       | trained on

So its completions may be right more often, and what is trained on is its own, on-policy.

Peers have no question in common, since an author's questions follow from its name and round. So a
node that shares a task with a peer answers the peer's question:

    round 7   select    own groups are all wrong: for each, notes an informative external group,
                        of the same task if there is one
    round 8   generate  completes the questions of those, behind the beginning of a right
                        completion, in place of as many questions of its own
              select    the informative ones are trained on as local groups

At most half of a completion is given away, and a completion that calls tools is never used. Only
what follows the beginning is counted as generated. The groups are not published: their questions
are those of their authors. What is noted for the next round is no part of a checkpoint, so a round
after a restart has no guided groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from protocol.messages import Episode, Question
from swarm_node.common.batched import paired
from swarm_node.rollouts import transcript
from swarm_node.rollouts.defence import better
from swarm_node.rollouts.groups import Completions, Group, Sample, Skipped, Tokens
from swarm_node.rollouts.interfaces import Generator

RIGHT = 0.5  # a reward from which on a completion counts as right


class PromptEncoder(transcript.Encoder, Protocol):
    """What a guide needs of a policy."""

    def encode_prompt(self, text: str) -> list[int]:
        """Ids up to where the completion starts."""
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """A peer's question, and how a right completion of it begins."""

    question: Question
    text: str


@dataclass(slots=True)
class Guide:
    """What the next round of a node answers behind the beginnings of others' completions."""

    encoder: PromptEncoder
    characters: int  # of a completion that are given away, at most
    most: int  # guided groups of a round
    noted: list[Beginning] = field(default_factory=list)

    def note(self, local: Sequence[Group], offered: Sequence[Group], rng: Random) -> None:
        """Notes an informative external group for each local group that is all wrong. Each is noted
        once, and those of the same task come first.
        """
        left = rng.sample(offered, len(offered))
        self.noted = []
        for wrong in list(filter(all_wrong, local))[: self.most]:
            left.sort(key=lambda group: _task(group) != _task(wrong))
            beginnings = [(group, self._beginning(group, rng)) for group in left]
            usable = [(group, text) for group, text in beginnings if text]
            if usable:
                group, text = usable[0]
                left.remove(group)
                self.noted.append(Beginning(group.question, text))

    def take(self) -> list[Beginning]:
        """What was noted, for the round that begins. Each is returned once."""
        noted, self.noted = self.noted, []
        return noted

    def complete(
        self,
        generator: Generator,
        groups: Sequence[Group],
        beginnings: Sequence[Beginning],
        group_size: int,
        stream: str,
    ) -> list[Group | Skipped]:
        """The groups, which have a prompt and no sample yet, with `group_size` samples each, which
        go on from these beginnings.
        """
        prompts = [self.encoder.encode_prompt(group.prompt) for group in groups]
        given = [
            self.encoder.encode_completion(beginning.text, ended=False) for beginning in beginnings
        ]
        contexts = [[*prompt, *ids] for prompt, ids in paired(prompts, given)]
        write = generator.open(goes_on=False)
        completed = write(contexts, group_size, f"{stream}/guided")
        found: list[Group | Skipped] = []
        for group, prompt, ids, beginning, made in zip(
            groups, prompts, given, beginnings, completed, strict=True
        ):
            found.append(_guided(group, prompt, ids, beginning.text, made))
        return found

    def _beginning(self, group: Group, rng: Random) -> str:
        """How one of the right completions begins; empty where there is none to go on from."""
        right = [sample for sample in better(group.samples) if sample.earned >= RIGHT]
        texts = [sample.episode.text for sample in right if sample.episode.single]
        if not texts:
            return ""
        text = rng.choice(texts)
        return text[: min(self.characters, len(text) // 2)]


def all_wrong(group: Group) -> bool:
    """Whether no completion of this group is right, and none is better than another."""
    return not group.informative and max(group.rewards, default=0.0) < RIGHT


def _task(group: Group) -> tuple[str, str, str]:
    question = group.question
    return question.environment, question.dataset, question.config_id


def _guided(
    group: Group,
    prompt: Sequence[int],
    given: Sequence[int],
    text: str,
    made: Completions | Skipped,
) -> Group | Skipped:
    """The group with what was generated behind a given beginning. Of each sample the beginning is a
    part, but no token of it is trained on.

    Args:
        prompt: ids of the prompt, without the beginning.
        given: ids of the beginning.
        text: the beginning.
        made: what was generated behind prompt and beginning.
    """
    if isinstance(made, Skipped):
        return made
    samples = tuple(_behind(sample, given, text) for sample in made.samples)
    return replace(group, samples=samples, prompt_ids=tuple(prompt))


def _behind(sample: Sample, given: Sequence[int], text: str) -> Sample:
    """The sample with what it goes on from as tokens that it did not write."""
    tokens = sample.tokens
    assert tokens is not None
    whole = Episode.of(text=text + sample.episode.text, ended=sample.episode.ended)
    ids = (*given, *tokens.ids)
    mask = (False,) * len(given) + (True,) * len(tokens.ids)
    log_probs = (0.0,) * len(given) + tokens.log_probs
    versions = tokens.versions[:1] * len(given) + tokens.versions
    return replace(sample, episode=whole, tokens=Tokens(ids, log_probs, versions, mask))
