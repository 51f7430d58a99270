"""What of a round is worth a look, for the ring of samples."""

from collections.abc import Callable, Iterator
from pathlib import Path

from swarm_node.common import plugins
from swarm_node.rollouts.groups import ScoredGroup, Selection
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.samples import Sample, SampleRing


def watcher(config: NodeConfig, home: Path, warn: Callable[[str], None]) -> Callable[[Selection], None] | None:
    """What a node hands its selections to; None where the option is off."""
    if not config.samples.enabled:
        return None
    advantages = plugins.load("advantages", config.training.scale_rewards)
    ring = SampleRing(home, config.samples.kilobytes * 1024, advantages, warn)

    def watch(selection: Selection) -> None:
        if ring.due():
            ring.take(selection.generated.round, list(samples_of(selection)))

    return watch


def samples_of(selection: Selection) -> Iterator[Sample]:
    """Every scored group of the round, with what became of it."""
    chosen = {id(group) for group in selection.local}
    for group in selection.generated.groups:
        trained = group.informative and id(group) in chosen
        why = "uninformative" if not group.informative else "not selected"
        yield _sample(group, local=True, why="" if trained else why)
    taken = {(group.author, group.question) for group in selection.external}
    refused = {(each.author, each.question): each.reason for each in selection.refused}
    for group in selection.considered:
        name = (group.author, group.question)
        why = refused.get(name, "not selected" if group.informative else "uninformative")
        yield _sample(group, local=False, why="" if name in taken else why)


def _sample(group: ScoredGroup, *, local: bool, why: str) -> Sample:
    return Sample(
        author=group.author,
        task=f"{group.question.dataset}/{group.question.config_id}",
        prompt=group.prompt,
        completions=[(completion.text, completion.ended) for completion in group.group.completions],
        rewards=group.rewards,
        local=local,
        trained=not why,
        why=why,
    )
