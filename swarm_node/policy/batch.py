"""Groups as token ids, micro-batches of them, and the tensors of a micro-batch. `tokenise` alone encodes for training.

A batch has one of two layouts. In *rows* a row is a prompt and one completion, or a prompt, once, with all completions
of its group behind it. Prompts are padded on the left, so a completion follows its prompt directly, and only the last
columns need logits. In a *tree* groups of any shape lie end to end in one row without a pad, since layers other than
attention see tokens one by one. In both a completion sees only its prompt and itself, positions restart after the
prompt, and the last token of a completion is predicted but never fed. `Policy.packing` finds the layout for a model.

The name of a tensor ends in its shape, here and where a policy or a loss computes: R rows, L columns of a row, T
predicted tokens of a batch (group by group, completion by completion, in order), D hidden size, V vocabulary, H heads,
S segments (a prompt or a completion), C completions with columns of their own, P places of attention's two blocks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor

from swarm_node.policy.device import to_device
from swarm_node.rollouts.groups import ScoredGroup, Skipped

MAX_PADDING = 0.3  # pads per real token in a micro-batch
MAX_PACKED = 4096  # columns of a packed row: its mask grows with their square, and peers choose the lengths
UNKNOWN = float("nan")

Recorded = Sequence[Sequence[float] | None]  # for each completion a value for every token; None: none was recorded


class Encoder(Protocol):
    """What `tokenise` asks of a policy."""

    version: int
    context_length: int

    def encode_prompt(self, text: str) -> list[int]:
        """Ids up to where the completion starts."""
        ...

    def encode_completion(self, text: str, *, ended: bool) -> list[int]:
        """Ids of a peer's completion; `ended`: with the one that ends it."""
        ...


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """A group, or some of its completions, as token ids, with what is recorded of every token.

    Log-probs that are not recorded are those that the step itself computes: in the first step nothing has moved.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[Sequence[int]]  # each of at least one token
    advantages: Sequence[float]  # one per completion, as all that follow
    external: Sequence[bool]  # whether a peer generated it
    behaviour: Recorded  # log-probs of the policy that generated it; external: of this policy before the first step
    proximal: Recorded  # log-probs of this policy before the first step
    staleness: Recorded  # updates since each token was generated; None for external completions

    @property
    def fed(self) -> int:
        """Columns behind the prompt."""
        return sum(len(ids) - 1 for ids in self.completion_ids)

    @property
    def length(self) -> int:
        """Columns of a row."""
        return len(self.prompt_ids) + self.fed

    def pieces(self, columns: int) -> list["TokenGroup"]:
        """The group in rows of at most `columns`, completions in order. One completion always fits, so 0 gives each
        completion a row of its own."""
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
        )


def tokenise(
    group: ScoredGroup, advantages: Sequence[float], policy: Encoder, *, truncated: bool = True
) -> TokenGroup | Skipped:
    """The ids that were generated for a local completion, those of this tokenizer for an external one.

    Args:
        advantages: one per completion.
        truncated: whether completions that were cut off are trained on.

    Returns:
        The group without completions that have no token or are not trained on; why, where it cannot be trained on.
    """
    completions, written = group.group.completions, group.local_tokens
    ids = [
        policy.encode_completion(completion.text, ended=completion.ended) if tokens is None else tokens.ids
        for completion, tokens in zip(completions, written, strict=True)
    ]
    keep = [i for i, completion in enumerate(completions) if ids[i] and (completion.ended or truncated)]
    prompt_ids = group.prompt_ids or policy.encode_prompt(group.prompt)
    if not keep or not prompt_ids:
        return Skipped("no trainable completion")
    if len(prompt_ids) + max(len(ids[i]) for i in keep) > policy.context_length:
        return Skipped("longer than the context")
    ages = [[float(policy.version - version) for version in tokens.versions] if tokens else [] for tokens in written]
    return TokenGroup(
        prompt_ids,
        ids,
        advantages,
        external=[tokens is None for tokens in written],
        behaviour=[None if tokens is None else tokens.log_probs for tokens in written],
        proximal=[None] * len(written),
        staleness=[None if t is None else age or [0.0] * len(t.ids) for t, age in zip(written, ages, strict=True)],
    ).only(keep)


def unrecorded(prompt_ids: Sequence[int], completion_ids: Sequence[Sequence[int]]) -> TokenGroup:
    """A group of which nothing is known but its ids: to compare ways of computing log-probs."""
    unknown = [None] * len(completion_ids)
    return TokenGroup(
        prompt_ids, completion_ids, [0.0] * len(unknown), [True] * len(unknown), unknown, unknown, unknown
    )


def micro_batches(groups: Sequence[TokenGroup], token_budget: int, *, pads: bool = True) -> Iterator[list[int]]:
    """Indices of groups, longest first, in batches of little padding whose padded size stays within the budget.

    A batch of one group always fits. Work grows with the padded size, so a batch is closed before its padding exceeds
    MAX_PADDING, although more passes cost time too. Without `pads` groups lie end to end and there is no padding.
    """
    batch: list[int] = []
    prompt = fed = real = 0  # widest of the batch: prompts are padded on the left, completions on the right
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
    """Indices of groups in micro-batches by token budget, the longest first (AReaL, arXiv 2505.24298, algorithm 1).

    A new batch is opened while there are fewer than `fewest`, or when no batch has room. Else a group joins the batch
    with the fewest groups among those with room. The padded size must stay within the budget; without `pads` groups lie
    end to end. A group longer than the budget is alone. Compared with `micro_batches` it makes fewer batches with more
    padding, and never closes one that has room.
    """
    batches: list[list[int]] = []
    widths: list[tuple[int, int]] = []  # of each batch: the widest prompt, the most columns behind one
    real: list[int] = []  # tokens of each batch
    for index in sorted(range(len(groups)), key=lambda i: -groups[i].length):
        group = groups[index]
        wider = [(max(prompt, len(group.prompt_ids)), max(fed, group.fed)) for prompt, fed in widths]
        sizes = [
            sum(wider[i]) * (len(batch) + 1) if pads else real[i] + group.length for i, batch in enumerate(batches)
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
class Tree:
    """Where the columns of a tree belong, and where they go for attention.

    Every prompt and every completion is a segment with a number. The parent of a completion is its prompt, that of a
    prompt is itself. A column sees an earlier one of its segment or of the parent. Attention works on prompts in one
    block and completions in another, each padded to its longest. Pads repeat the last column of their segment, and
    causal attention hides them from real columns.
    """

    segments_L: Tensor  # number of the column's segment
    parents_L: Tensor  # number of the parent of the column's segment
    prompts: tuple[int, int]  # prompts, longest
    completions: tuple[int, int]  # C, longest; (0, 0) if all are single tokens
    columns_P: Tensor  # the column in each place of both blocks, one after the other
    places_L: Tensor  # the place of each column
    pads: Tensor  # places that hold no column of their own
    parents_C: Tensor  # index of the prompt
    mask: Tensor  # bool [C or 1, 1, longest, longest prompt + longest], True where attention is allowed


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch: model input, where each predicted token is found, and what is known of it."""

    ids_RL: Tensor
    positions_RL: Tensor
    mask: Tensor | None  # rows: [R, L], or bool [R, 1, L, L], True where attention is allowed; a tree has none
    tree: Tree | None  # None for rows
    keep: int  # only the last so many columns of a row predict tokens
    source_T: Tensor  # index into the flattened [R * keep] predictions
    target_T: Tensor  # ids to predict
    lengths: Sequence[int]  # tokens of each completion: their sum is T
    advantages_T: Tensor
    behaviour_T: Tensor  # this and the next two as in TokenGroup, NaN where nothing is recorded
    proximal_T: Tensor
    staleness_T: Tensor
    external_T: Tensor  # bool


def build_rows(groups: Sequence[TokenGroup], pad_id: int, device: torch.device) -> Batch:
    """A row for each group. Uses a plain 2-D mask unless a row holds more than one completion."""
    width = max(len(group.prompt_ids) for group in groups)
    length = width + max(group.fed for group in groups)
    keep = length - width + 1
    ids, positions, segments = [], [], []
    source: list[int] = []
    for number, group in enumerate(groups):
        prompt = len(group.prompt_ids)
        row_ids = [pad_id] * (width - prompt) + list(group.prompt_ids)
        row_positions = [0] * (width - prompt) + list(range(prompt))
        row_segments = [-1] * (width - prompt) + [0] * prompt  # -1 pad, 0 prompt, k-th completion k
        for k, completion in enumerate(group.completion_ids, start=1):
            # Token 0 is predicted by the prompt's last column, which is kept column 0; token j by that of token j - 1.
            offset = number * keep + len(row_ids) - width
            source += [number * keep, *range(offset + 1, offset + len(completion))]
            row_ids += completion[:-1]
            row_positions += range(prompt, prompt + len(completion) - 1)
            row_segments += [k] * (len(completion) - 1)
        tail = length - len(row_ids)
        ids.append(row_ids + [pad_id] * tail)
        positions.append(row_positions + [0] * tail)
        segments.append(row_segments + [-1] * tail)
    segments_RL = torch.tensor(segments, device=device)
    packed = any(len(group.completion_ids) > 1 for group in groups)
    mask = tree_mask(segments_RL) if packed else (segments_RL >= 0).long()
    return _batch(groups, device, ids, positions, mask, None, keep, source)


def tree_mask(segments_RL: Tensor) -> Tensor:
    """bool [R, 1, L, L] from the segments of columns: causal, and only within the prompt or the column's completion.

    A pad sees only itself: a row of the mask without any True would give NaN in softmax.
    """
    length = segments_RL.shape[1]
    query, key = segments_RL[:, :, None], segments_RL[:, None, :]
    causal = torch.ones(length, length, dtype=torch.bool, device=segments_RL.device).tril()
    allowed = causal & (key >= 0) & ((key == 0) | (key == query))
    return (allowed | torch.eye(length, dtype=torch.bool, device=segments_RL.device)).unsqueeze(1)


def build_tree(groups: Sequence[TokenGroup], device: torch.device) -> Batch:
    """The groups end to end in one row."""
    ids: list[int] = []
    positions: list[int] = []
    source: list[int] = []
    spans: list[tuple[int, int, int]] = []  # of each segment: parent, first column, columns
    for group in groups:
        prompt = len(group.prompt_ids)
        parent, last = len(spans), len(ids) + prompt - 1
        spans.append((parent, len(ids), prompt))
        ids += group.prompt_ids
        positions += range(prompt)
        for completion in group.completion_ids:
            fed = len(completion) - 1
            source += [last, *range(len(ids), len(ids) + fed)]
            spans.append((parent, len(ids), fed))
            ids += completion[:-1]
            positions += range(prompt, prompt + fed)
    return _batch(groups, device, [ids], [positions], None, _tree(spans, device), len(ids), source)


def _tree(spans: Sequence[tuple[int, int, int]], device: torch.device) -> Tree:
    """Of segments (parent, first column, columns)."""
    parents_S, _, lengths_S = torch.tensor(spans).T
    segments_L = torch.arange(len(spans)).repeat_interleave(lengths_S)
    numbers = {segment: index for index, segment in enumerate(dict.fromkeys(parent for parent, _, _ in spans))}
    prompts = [spans[segment][1:] for segment in numbers]
    completions = [span for segment, span in enumerate(spans) if segment not in numbers and span[2]]
    prompt_columns, prompt_real = _padded(prompts)
    columns, real = _padded([span[1:] for span in completions])
    parents_C = torch.tensor([numbers[parent] for parent, _, _ in completions], dtype=torch.long)
    real_P = torch.cat([prompt_real.flatten(), real.flatten()])
    columns_P = torch.cat([prompt_columns.flatten(), columns.flatten()])
    places_L = torch.empty(int(real_P.sum()), dtype=torch.long)
    places_L[columns_P[real_P]] = real_P.nonzero()[:, 0]
    seen = prompt_real[parents_C] if not prompt_real.all() else prompt_real[:1]  # prompts of one length: one for all
    longest = columns.shape[1]
    prompt_part = seen[:, None, None, :].expand(-1, 1, longest, -1)
    completion_part = torch.ones(longest, longest, dtype=torch.bool).tril().expand(len(seen), 1, -1, -1)
    return Tree(
        segments_L=segments_L.to(device),
        parents_L=parents_S[segments_L].to(device),
        prompts=(len(prompts), prompt_columns.shape[1]),
        completions=(len(completions), longest),
        columns_P=columns_P.to(device),
        places_L=places_L.to(device),
        pads=(~real_P).nonzero()[:, 0].to(device),
        parents_C=parents_C.to(device),
        mask=torch.cat([prompt_part, completion_part], dim=-1).to(device),
    )


def _padded(spans: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    """Columns [spans, longest] of spans (first, length), pads repeating the last one, and bool which are real."""
    if not spans:
        return torch.zeros(0, 0, dtype=torch.long), torch.zeros(0, 0, dtype=torch.bool)
    first, length = torch.tensor(spans).T[:, :, None]
    step = torch.arange(int(length.max()))
    return first + step.minimum(length - 1), step < length


def _batch(
    groups: Sequence[TokenGroup],
    device: torch.device,
    ids: list[list[int]],
    positions: list[list[int]],
    mask: Tensor | None,
    tree: Tree | None,
    keep: int,
    source: list[int],
) -> Batch:
    """Adds to the input what both layouts have: targets and recorded values, in the order of the groups."""
    completions = [completion for group in groups for completion in group.completion_ids]
    lengths = [len(completion) for completion in completions]

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
    return Batch(
        ids_RL=torch.tensor(ids, device=device),
        positions_RL=torch.tensor(positions, device=device),
        mask=mask,
        tree=tree,
        keep=keep,
        source_T=torch.tensor(source, device=device),
        target_T=torch.tensor([token for completion in completions for token in completion], device=device),
        lengths=lengths,
        advantages_T=advantages_T,
        behaviour_T=behaviour_T,
        proximal_T=proximal_T,
        staleness_T=staleness_T,
        external_T=to_device(spread([external for group in groups for external in group.external]), device),
    )
