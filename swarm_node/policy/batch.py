"""Groups as token ids, micro-batches of them, and the tensors of a micro-batch. Only `tokenise`
encodes for training.

Theory of operation
===================

    Group  --tokenise-->  TokenGroup  --pieces, micro-batches-->  Batch  --forward, loss-->  step
    texts, rewards        one prompt, a Row of ids                tensors
                          for each completion

What is recorded of a completion stays in its `Row` until the tensors are built: the ids that were
generated, their log-probs, how old the weights were. An external completion has text alone, and is
encoded here, by this node's tokenizer. Advantages are those within the whole group: they are
computed before it is cut into pieces.

A batch has one of two layouts. In *rows* a row is a prompt and one completion. Prompts are padded
on the left, so a completion follows its prompt directly, and only the last columns need logits. In
a *tree* all groups share one row without a pad (tree_attention.py), where a common beginning of
sequences stands once. In both a completion sees only its prompt and itself, positions count from
the start of its prompt, and its last token is predicted but never fed. `Policy.packing` finds the
layout for a model. Tokens that an environment wrote into an episode are fed and never predicted, so
they enter no loss and no figure.

The name of a tensor ends in its shape, here and where a policy or a loss computes: R rows, L
columns of a row, T predicted tokens of a batch (group by group, completion by completion, in
order), U columns that predict one or more of them, D hidden size, V vocabulary, H heads, S segments
of a level of a tree, P places of attention's blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, takewhile
from typing import Protocol

import torch
from torch import Tensor

from swarm_node.common.batched import paired
from swarm_node.policy.device import to_device
from swarm_node.policy.tree_attention import WORTH, Tree, grow
from swarm_node.rollouts import transcript
from swarm_node.rollouts.groups import Group, Sample, Skipped

MAX_PADDING = 0.3  # pads per real token in a micro-batch
UNKNOWN = float("nan")

# A value for every token that the policy wrote in a completion; None: none was recorded
Recorded = Sequence[float] | None


class TokenisingPolicy(transcript.Encoder, Protocol):
    """What `tokenise` asks of a policy."""

    version: int
    context_length: int

    def encode_prompt(self, text: str) -> list[int]:
        """Ids up to where the completion starts."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One completion as token ids, with what is recorded of the tokens that its policy wrote.

    Where no log-probs are recorded, a step uses those that it computes: before the first step no
    weight has moved.

    Attributes:
        ids: of the completion, at least one.
        advantage: of the completion in its group.
        external: whether a peer generated it.
        behaviour: log-probs, in nats, of the policy that generated it; of an external completion,
            those of this policy before the first step.
        proximal: log-probs of this policy before the first step.
        staleness: updates since each token was generated; None for an external completion.
        mask: whether the policy wrote each of `ids`, as in `Tokens`; empty: all of them.
    """

    ids: Sequence[int]
    advantage: float
    external: bool
    behaviour: Recorded = None
    proximal: Recorded = None
    staleness: Recorded = None
    mask: Sequence[bool] = ()

    @property
    def predicted(self) -> Sequence[int]:
        """The positions in `ids` of the tokens that the policy wrote."""
        positions = range(len(self.ids))
        return list(compress(positions, self.mask)) if self.mask else positions

    @property
    def fed(self) -> int:
        """Columns that the completion takes behind its prompt: its last token is never fed."""
        return len(self.ids) - 1

    def behind(self, common: int) -> "Row":
        """The row with the first `common` tokens fed and not predicted, as those of an environment
        are.
        """
        kept = [position for position in self.predicted if position >= common]
        spared = len(self.predicted) - len(kept)
        predicted = set(kept)
        return replace(
            self,
            behaviour=_without(self.behaviour, spared),
            proximal=_without(self.proximal, spared),
            staleness=_without(self.staleness, spared),
            mask=[position in predicted for position in range(len(self.ids))],
        )


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """A group, or a part of it, as token ids: one prompt, and a row for each completion.

    The rows need not be those of the whole group. Advantages were computed before, so that a group
    may be cut into pieces that fit into memory, and lose rows that teach nothing.
    """

    prompt_ids: Sequence[int]
    rows: Sequence[Row]

    @property
    def fed(self) -> int:
        """Columns behind the prompt."""
        return sum(row.fed for row in self.rows)

    @property
    def length(self) -> int:
        """Columns of the prompt and of all rows behind it."""
        return len(self.prompt_ids) + self.fed

    def pieces(self, columns: int) -> list["TokenGroup"]:
        """The group in pieces of at most `columns`, rows in order. A piece always takes one row, so
        0 gives each row a piece of its own.
        """
        pieces: list[list[Row]] = []
        length = 0
        for row in self.rows:
            if not pieces or length + row.fed > columns:
                pieces.append([])
                length = len(self.prompt_ids)
            pieces[-1].append(row)
            length += row.fed
        return [TokenGroup(self.prompt_ids, rows) for rows in pieces]

    def differences(self) -> "TokenGroup":
        """What tells the completions apart: those whose advantage is not zero, without predicting
        the tokens that all completions of the group begin with. A completion that has no other
        token is skipped.
        """
        side_by_side = zip(*(row.ids for row in self.rows), strict=False)
        common = sum(1 for _ in takewhile(_all_one, side_by_side))
        rows = [row.behind(common) for row in self.rows if row.advantage]
        return TokenGroup(self.prompt_ids, [row for row in rows if row.predicted])


def _all_one(tokens: Sequence[int]) -> bool:
    return len(set(tokens)) == 1


def _without(recorded: Recorded, first: int) -> Recorded:
    """The recorded values without the first few."""
    return None if recorded is None else recorded[first:]


def tokenise(
    group: Group, advantages: Sequence[float], policy: TokenisingPolicy
) -> TokenGroup | Skipped:
    """A group as token ids: those that were generated for a local sample, this tokenizer's for an
    external one.

    Args:
        advantages: one per sample.

    Returns:
        The group without samples that have no token, or why it cannot be trained on.
    """
    rows = [
        _row(sample, advantage, policy) for sample, advantage in paired(group.samples, advantages)
    ]
    rows = [row for row in rows if row.predicted]
    prompt_ids = group.prompt_ids or policy.encode_prompt(group.prompt)
    if not rows or not prompt_ids:
        return Skipped("no trainable completion")
    if len(prompt_ids) + max(len(row.ids) for row in rows) > policy.context_length:
        return Skipped("longer than the context")
    return TokenGroup(prompt_ids, rows)


def _row(sample: Sample, advantage: float, policy: TokenisingPolicy) -> Row:
    tokens = sample.tokens
    if tokens is None:
        ids, mask = _encoded(sample, policy)
        return Row(ids, advantage, external=True, mask=mask)
    ages = [float(policy.version - version) for version in tokens.versions]
    return Row(
        tokens.ids,
        advantage,
        external=False,
        behaviour=_seen(tokens.log_probs, tokens.mask),
        staleness=_seen(ages or [0.0] * len(tokens.ids), tokens.mask),
        mask=tokens.mask,
    )


def _encoded(sample: Sample, policy: TokenisingPolicy) -> tuple[Sequence[int], Sequence[bool]]:
    """Ids and mask of an external completion."""
    episode = sample.episode
    if not sample.observations:
        return policy.encode_completion(episode.turns[0].text, ended=episode.ended), ()
    return transcript.encode_episode(episode, sample.observations, policy)


def completion_lengths(policy: TokenisingPolicy, group: Group) -> list[int]:
    """Tokens of each completion of the group, as `tokenise` would have them, without what an
    environment says between its turns.
    """
    return [
        sample.tokens.written if sample.tokens else _encoded_length(sample, policy)
        for sample in group.samples
    ]


def _encoded_length(sample: Sample, policy: TokenisingPolicy) -> int:
    text = "".join(sample.written)
    return len(policy.encode_completion(text, ended=sample.episode.ended))


def _seen(values: Sequence[float], mask: Sequence[bool]) -> Sequence[float]:
    """The values of the tokens that the policy wrote."""
    return list(compress(values, mask)) if mask else values


def unrecorded(prompt_ids: Sequence[int], completion_ids: Sequence[Sequence[int]]) -> TokenGroup:
    """A group with ids but no recorded values, to compare ways of computing log-probs."""
    return TokenGroup(prompt_ids, [Row(ids, 0.0, external=True) for ids in completion_ids])


@dataclass(slots=True)
class MicroBatch:
    """Groups that share one forward and backward pass."""

    groups: list[TokenGroup] = field(default_factory=list)
    # Columns of the widest prompt, which is padded on the left, and most columns behind one
    prompt: int = 0
    fed: int = 0
    real: int = 0  # columns that are no pads

    def size_with(self, group: TokenGroup, pads: bool) -> int:
        """Columns of the batch with this group too. Without `pads` groups lie end to end."""
        if not pads:
            return self.real + group.length
        width = max(self.prompt, len(group.prompt_ids)) + max(self.fed, group.fed)
        return width * (len(self.groups) + 1)

    def add(self, group: TokenGroup) -> None:
        """Takes this group, too."""
        self.groups.append(group)
        self.prompt = max(self.prompt, len(group.prompt_ids))
        self.fed = max(self.fed, group.fed)
        self.real += group.length


def micro_batches(
    groups: Sequence[TokenGroup], token_budget: int, *, pads: bool = True
) -> Iterator[list[TokenGroup]]:
    """Groups, longest first, in batches of little padding whose padded size stays within the
    budget.

    A batch of one group always fits. Work grows with the padded size, so a batch is closed before
    its padding exceeds MAX_PADDING, although more passes cost time too. Without `pads` groups lie
    end to end and there is no padding.
    """
    batch = MicroBatch()
    for group in _longest_first(groups):
        size = batch.size_with(group, pads)
        most = min(token_budget, (1 + MAX_PADDING) * (batch.real + group.length))
        if batch.groups and size > most:
            yield batch.groups
            batch = MicroBatch()
        batch.add(group)
    if batch.groups:
        yield batch.groups


def dynamic_batches(
    groups: Sequence[TokenGroup], token_budget: int, *, pads: bool = True, fewest: int = 1
) -> list[list[TokenGroup]]:
    """Groups in micro-batches by token budget, the longest first (AReaL, arXiv 2505.24298,
    algorithm 1).

    A new batch is opened while there are fewer than `fewest`, or when no batch has room. Else a
    group joins the batch with the fewest groups among those with room. The padded size must stay
    within the budget; without `pads` groups lie end to end. A group longer than the budget is
    alone. Compared with `micro_batches` it makes fewer batches with more padding, and never closes
    one that has room.
    """
    batches: list[MicroBatch] = []
    for group in _longest_first(groups):
        roomy = [batch for batch in batches if batch.size_with(group, pads) <= token_budget]
        if len(batches) < fewest or not roomy:
            batches.append(MicroBatch())
            roomy = batches[-1:]
        min(roomy, key=lambda batch: len(batch.groups)).add(group)
    return [batch.groups for batch in batches]


def _longest_first(groups: Sequence[TokenGroup]) -> list[TokenGroup]:
    return sorted(groups, key=lambda group: -group.length)


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch: model input, where each predicted token is found, and what is known of it."""

    ids_RL: Tensor
    positions_RL: Tensor
    mask: Tensor | None  # of rows: [R, L]; a tree has none
    tree: Tree | None  # None for rows
    keep: int  # only the last so many columns of a row predict tokens
    columns_U: Tensor  # columns that predict, as indices into the flattened [R * keep] ones
    source_T: Tensor  # index into columns_U
    target_T: Tensor  # ids to predict
    lengths: Sequence[int]  # predicted tokens of each completion: their sum is T
    advantages_T: Tensor
    behaviour_T: Tensor  # this and the next two as in Row, NaN where nothing is recorded
    proximal_T: Tensor
    staleness_T: Tensor
    external_T: Tensor  # bool


def build_rows(groups: Sequence[TokenGroup], device: torch.device) -> Batch:
    """One row per completion, padded with its first token. Pads often embed to zero, where Gemma 3n
    has no gradient.
    """
    sequences = [(group.prompt_ids, row) for group in groups for row in group.rows]
    width = max(len(prompt) for prompt, _ in sequences)
    keep = max(len(row.ids) for _, row in sequences)
    ids, positions, mask = [], [], []
    source: list[int] = []
    for number, (prompt, row) in enumerate(sequences):
        fed = [*prompt, *row.ids[:-1]]
        left, right = width - len(prompt), keep - len(row.ids)
        ids.append([fed[0]] * left + fed + [fed[0]] * right)
        positions.append([0] * left + list(range(len(fed))) + [0] * right)
        mask.append([0] * left + [1] * len(fed) + [0] * right)
        # Token 0 is predicted by the prompt's last column, which is kept column 0; token j by that
        # of token j - 1.
        source += [number * keep + position for position in row.predicted]
    ids_RL, positions_RL, mask_RL = (to_device(values, device) for values in (ids, positions, mask))
    return _batch(groups, device, ids_RL, positions_RL, mask_RL, None, keep, source)


def build_tree(groups: Sequence[TokenGroup], device: torch.device, worth: int = WORTH) -> Batch:
    """The groups in one row, where a common beginning of sequences stands once. See `grow` for
    `worth`.
    """
    sequences = [(group.prompt_ids, row) for group in groups for row in group.rows]
    tree, columns = grow([(*prompt, *row.ids[:-1]) for prompt, row in sequences], device, worth)
    source: list[int] = []
    for (prompt, row), own in paired(sequences, columns):
        source += [own[len(prompt) - 1 + position] for position in row.predicted]
    return _batch(
        groups,
        device,
        tree.ids_L[None],
        tree.positions_L[None],
        None,
        tree,
        len(tree.ids_L),
        source,
    )


def _batch(
    groups: Sequence[TokenGroup],
    device: torch.device,
    ids_RL: Tensor,
    positions_RL: Tensor,
    mask: Tensor | None,
    tree: Tree | None,
    keep: int,
    source: list[int],
) -> Batch:
    """Adds to the input what both layouts have: targets and recorded values, in the order of the
    groups.
    """
    lengths: list[int] = []
    targets: list[int] = []
    external: list[bool] = []
    values: list[list[float]] = [[], [], [], []]
    advantages, behaviour, proximal, staleness = values
    for row in (row for group in groups for row in group.rows):
        predicted = row.predicted
        length = len(predicted)
        lengths.append(length)
        targets += [row.ids[position] for position in predicted]
        external += [row.external] * length
        advantages += [row.advantage] * length
        behaviour += row.behaviour or [UNKNOWN] * length
        proximal += row.proximal or [UNKNOWN] * length
        staleness += row.staleness or [UNKNOWN] * length
    advantages_T, behaviour_T, proximal_T, staleness_T = to_device(torch.tensor(values), device)
    columns_U, source_T = torch.unique(torch.tensor(source), return_inverse=True)
    return Batch(
        ids_RL=ids_RL,
        positions_RL=positions_RL,
        mask=mask,
        tree=tree,
        keep=keep,
        columns_U=to_device(columns_U, device),
        source_T=to_device(source_T, device),
        target_T=to_device(targets, device),
        lengths=lengths,
        advantages_T=advantages_T,
        behaviour_T=behaviour_T,
        proximal_T=proximal_T,
        staleness_T=staleness_T,
        external_T=to_device(torch.tensor(external), device),
    )
