"""Groups as token ids, micro-batches of them, and the tensors of a micro-batch. Only `tokenise`
encodes for training.

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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, takewhile
from typing import Any, Protocol

import torch
from torch import Tensor

from swarm_node.policy.device import to_device
from swarm_node.policy.tree_attention import WORTH, Tree, grow
from swarm_node.rollouts import transcript
from swarm_node.rollouts.groups import ScoredGroup, Skipped

MAX_PADDING = 0.3  # pads per real token in a micro-batch
UNKNOWN = float("nan")

# Per completion a value for every predicted token; None: none was recorded
Recorded = Sequence[Sequence[float] | None]


class Encoder(transcript.Encoder, Protocol):
    """What `tokenise` asks of a policy."""

    version: int
    context_length: int

    def encode_prompt(self, text: str) -> list[int]:
        """Ids up to where the completion starts."""
        ...


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """A group, or some of its completions, as token ids, with what is recorded of every token.

    Where no log-probs are recorded, a step uses those that it computes: before the first step no
    weight has moved.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[Sequence[int]]  # each of at least one token
    advantages: Sequence[float]  # one per completion, as all that follow
    external: Sequence[bool]  # whether a peer generated it
    # Log-probs of the policy that generated it; external: of this policy before the first step
    behaviour: Recorded
    proximal: Recorded  # log-probs of this policy before the first step
    staleness: Recorded  # updates since each token was generated; None for external completions
    masks: Sequence[Sequence[bool]] = ()  # as in Tokens; empty: the policy wrote all

    @property
    def predicted(self) -> list[Sequence[int]]:
        """The places, in each completion, of the tokens that the policy wrote."""
        masks = self.masks or [()] * len(self.completion_ids)
        each = zip(self.completion_ids, masks, strict=True)
        return [
            list(compress(range(len(ids)), mask)) if mask else range(len(ids)) for ids, mask in each
        ]

    @property
    def fed(self) -> int:
        """Columns behind the prompt."""
        return sum(len(ids) - 1 for ids in self.completion_ids)

    @property
    def length(self) -> int:
        """Columns of a row."""
        return len(self.prompt_ids) + self.fed

    def pieces(self, columns: int) -> list["TokenGroup"]:
        """The group in rows of at most `columns`, completions in order. A row always takes one
        completion, so 0 gives each completion a row of its own.
        """
        pieces: list[list[int]] = []
        length = 0
        for index, ids in enumerate(self.completion_ids):
            fed = len(ids) - 1
            if not pieces or length + fed > columns:
                pieces.append([])
                length = len(self.prompt_ids)
            pieces[-1].append(index)
            length += fed
        return [self.only(piece) for piece in pieces]

    def differences(self) -> "TokenGroup":
        """What tells the completions apart: those whose advantage is not zero, without predicting
        the tokens that all completions of the group begin with. Still fed, as tokens of an
        environment are. A completion that has no other token is left out.
        """
        common = sum(1 for _ in takewhile(_all_one, zip(*self.completion_ids, strict=False)))
        spared = [sum(place < common for place in places) for places in self.predicted]
        chosen = list[int]()
        masks = list[list[bool]]()
        for number, places in enumerate(self.predicted):
            different = set(places[spared[number] :])
            masks.append([place in different for place in range(len(self.completion_ids[number]))])
            if different and self.advantages[number]:
                chosen.append(number)
        return replace(
            self,
            behaviour=_without(self.behaviour, spared),
            proximal=_without(self.proximal, spared),
            staleness=_without(self.staleness, spared),
            masks=masks,
        ).only(chosen)

    def only(self, chosen: Sequence[int]) -> "TokenGroup":
        """The same prompt with these of its completions."""
        return TokenGroup(
            self.prompt_ids,
            [self.completion_ids[i] for i in chosen],
            [self.advantages[i] for i in chosen],
            [self.external[i] for i in chosen],
            [self.behaviour[i] for i in chosen],
            [self.proximal[i] for i in chosen],
            [self.staleness[i] for i in chosen],
            [self.masks[i] for i in chosen] if self.masks else (),
        )


def _all_one(tokens: Sequence[int]) -> bool:
    return len(set(tokens)) == 1


def _without(recorded: Recorded, spared: Sequence[int]) -> Recorded:
    """The recorded values of each completion without its first few."""
    return [
        None if values is None else values[few:]
        for values, few in zip(recorded, spared, strict=True)
    ]


def tokenise(
    group: ScoredGroup, advantages: Sequence[float], policy: Encoder
) -> TokenGroup | Skipped:
    """A group as token ids: those that were generated for a local completion, this tokenizer's for
    an external one.

    Args:
        advantages: one per completion.

    Returns:
        The group without completions that have no token, or why it cannot be trained on.
    """
    written = group.tokens or (None,) * len(group.group.episodes)
    ids, masks = [], []
    for number, tokens in enumerate(written):
        own, mask = (tokens.ids, tokens.mask) if tokens else _encoded(group, number, policy)
        ids.append(own)
        masks.append(mask)
    keep = [i for i, own in enumerate(ids) if own and (not masks[i] or any(masks[i]))]
    prompt_ids = group.prompt_ids or policy.encode_prompt(group.prompt)
    if not keep or not prompt_ids:
        return Skipped("no trainable completion")
    if len(prompt_ids) + max(len(ids[i]) for i in keep) > policy.context_length:
        return Skipped("longer than the context")
    ages = [
        [float(policy.version - version) for version in tokens.versions] if tokens else []
        for tokens in written
    ]
    ages = [age or [0.0] * len(own) for age, own in zip(ages, ids, strict=True)]
    return TokenGroup(
        prompt_ids,
        ids,
        advantages,
        external=[tokens is None for tokens in written],
        behaviour=[None if t is None else _seen(t.log_probs, t.mask) for t in written],
        proximal=[None] * len(written),
        staleness=[
            None if t is None else _seen(age, t.mask) for t, age in zip(written, ages, strict=True)
        ],
        masks=masks if any(masks) else (),
    ).only(keep)


def _encoded(
    group: ScoredGroup, number: int, policy: Encoder
) -> tuple[Sequence[int], Sequence[bool]]:
    """Ids and mask of an external completion."""
    episode = group.group.episodes[number]
    if not group.observations:
        return policy.encode_completion(episode.turns[0].text, ended=episode.ended), ()
    return transcript.encode_episode(episode, group.observations[number], policy)


def _seen(values: Sequence[float], mask: Sequence[bool]) -> Sequence[float]:
    """The values of the tokens that the policy wrote."""
    return list(compress(values, mask)) if mask else values


def unrecorded(prompt_ids: Sequence[int], completion_ids: Sequence[Sequence[int]]) -> TokenGroup:
    """A group with ids but no recorded values, to compare ways of computing log-probs."""
    unknown = [None] * len(completion_ids)
    return TokenGroup(
        prompt_ids,
        completion_ids,
        [0.0] * len(unknown),
        [True] * len(unknown),
        unknown,
        unknown,
        unknown,
    )


def micro_batches(
    groups: Sequence[TokenGroup], token_budget: int, *, pads: bool = True
) -> Iterator[list[int]]:
    """Indices of groups, longest first, in batches of little padding whose padded size stays within
    the budget.

    A batch of one group always fits. Work grows with the padded size, so a batch is closed before
    its padding exceeds MAX_PADDING, although more passes cost time too. Without `pads` groups lie
    end to end and there is no padding.
    """
    batch: list[int] = []
    # Widest of the batch: prompts are padded on the left, completions on the right
    prompt = fed = real = 0
    for index in sorted(range(len(groups)), key=lambda i: -groups[i].length):
        group = groups[index]
        wider = max(prompt, len(group.prompt_ids)), max(fed, group.fed)
        padded = sum(wider) * (len(batch) + 1) if pads else real + group.length
        if batch and (padded > token_budget or padded > (1 + MAX_PADDING) * (real + group.length)):
            yield batch
            batch, wider, real = [], (len(group.prompt_ids), group.fed), 0
        prompt, fed = wider
        real += group.length
        batch.append(index)
    if batch:
        yield batch


def dynamic_batches(
    groups: Sequence[TokenGroup], token_budget: int, *, pads: bool = True, fewest: int = 1
) -> list[list[int]]:
    """Indices of groups in micro-batches by token budget, the longest first (AReaL, arXiv
    2505.24298, algorithm 1).

    A new batch is opened while there are fewer than `fewest`, or when no batch has room. Else a
    group joins the batch with the fewest groups among those with room. The padded size must stay
    within the budget; without `pads` groups lie end to end. A group longer than the budget is
    alone. Compared with `micro_batches` it makes fewer batches with more padding, and never closes
    one that has room.
    """
    batches: list[list[int]] = []
    # Of each batch: the widest prompt, the most columns behind one
    widths: list[tuple[int, int]] = []
    real: list[int] = []  # tokens of each batch
    for index in sorted(range(len(groups)), key=lambda i: -groups[i].length):
        group = groups[index]
        wider = [
            (max(prompt, len(group.prompt_ids)), max(fed, group.fed)) for prompt, fed in widths
        ]
        sizes = [
            sum(wider[i]) * (len(batch) + 1) if pads else real[i] + group.length
            for i, batch in enumerate(batches)
        ]
        roomy = [i for i, size in enumerate(sizes) if size <= token_budget]
        if len(batches) < fewest or not roomy:
            batches.append([index])
            widths.append((len(group.prompt_ids), group.fed))
            real.append(group.length)
        else:
            chosen = min(roomy, key=lambda i: len(batches[i]))
            batches[chosen].append(index)
            widths[chosen] = wider[chosen]
            real[chosen] += group.length
    return batches


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
    behaviour_T: Tensor  # this and the next two as in TokenGroup, NaN where nothing is recorded
    proximal_T: Tensor
    staleness_T: Tensor
    external_T: Tensor  # bool


def build_rows(groups: Sequence[TokenGroup], device: torch.device) -> Batch:
    """One row per completion, padded with its first token. Pads often embed to zero, where Gemma 3n
    has no gradient.
    """
    pairs = [
        (group.prompt_ids, completion) for group in groups for completion in group.completion_ids
    ]
    predicted = [places for group in groups for places in group.predicted]
    width, keep = (
        max(len(prompt) for prompt, _ in pairs),
        max(len(completion) for _, completion in pairs),
    )
    ids, positions, mask = [], [], []
    source: list[int] = []
    for number, ((prompt, completion), places) in enumerate(zip(pairs, predicted, strict=True)):
        fed = [*prompt, *completion[:-1]]
        left, right = width - len(prompt), keep - len(completion)
        ids.append([fed[0]] * left + fed + [fed[0]] * right)
        positions.append([0] * left + list(range(len(fed))) + [0] * right)
        mask.append([0] * left + [1] * len(fed) + [0] * right)
        # Token 0 is predicted by the prompt's last column, which is kept column 0; token j by that
        # of token j - 1.
        source += [number * keep + place for place in places]
    ids_RL, positions_RL, mask_RL = (to_device(rows, device) for rows in (ids, positions, mask))
    return _batch(groups, device, ids_RL, positions_RL, mask_RL, None, keep, source)


def build_tree(groups: Sequence[TokenGroup], device: torch.device, worth: int = WORTH) -> Batch:
    """The groups in one row, where a common beginning of sequences stands once. See `grow` for
    `worth`.
    """
    completions = [
        (group.prompt_ids, completion) for group in groups for completion in group.completion_ids
    ]
    tree, columns = grow(
        [(*prompt, *completion[:-1]) for prompt, completion in completions], device, worth
    )
    predicted = [places for group in groups for places in group.predicted]
    source: list[int] = []
    for (prompt, _), own, places in zip(completions, columns, predicted, strict=True):
        source += [own[len(prompt) - 1 + place] for place in places]
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
    pairs = [
        pair for group in groups for pair in zip(group.completion_ids, group.predicted, strict=True)
    ]
    lengths = [len(places) for _, places in pairs]

    def flat(recorded: Iterable[Recorded]) -> list[float]:
        each = zip(lengths, chain.from_iterable(recorded), strict=True)
        return [value for length, known in each for value in known or [UNKNOWN] * length]

    def spread(values: list[Any]) -> Tensor:
        return torch.tensor(values).repeat_interleave(torch.tensor(lengths))

    recorded = [flat(group.behaviour for group in groups), flat(group.proximal for group in groups)]
    recorded.append(flat(group.staleness for group in groups))
    advantages_T = spread([advantage for group in groups for advantage in group.advantages])
    values = torch.cat([advantages_T[None], torch.tensor(recorded)])
    advantages_T, behaviour_T, proximal_T, staleness_T = to_device(values, device)
    columns_U, source_T = torch.unique(torch.tensor(source), return_inverse=True)
    return Batch(
        ids_RL=ids_RL,
        positions_RL=positions_RL,
        mask=mask,
        tree=tree,
        keep=keep,
        columns_U=to_device(columns_U, device),
        source_T=to_device(source_T, device),
        target_T=torch.tensor(
            [completion[place] for completion, places in pairs for place in places], device=device
        ),
        lengths=lengths,
        advantages_T=advantages_T,
        behaviour_T=behaviour_T,
        proximal_T=proximal_T,
        staleness_T=staleness_T,
        external_T=to_device(
            spread([external for group in groups for external in group.external]), device
        ),
    )
