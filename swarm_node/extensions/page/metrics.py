"""/metrics for Prometheus: what the events of a node add up to, and what the node says now.

Every metric of a round's report is here by its name. Counters are sums over events.jsonl, so that they go on when node
or page start again, and their increments are those of the events.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from swarm_node.extensions.page.node import SUMMED, NodeWatch
from swarm_node.extensions.page.page import Page
from swarm_node.rollouts.reports import METRICS

CONTENT_TYPE = CONTENT_TYPE_LATEST
COUNTERS = {  # of NodeWatch.totals, besides the metrics that are sums
    "rounds": "Rounds done",
    "external_groups": "External groups trained on",
    "checkpoints": "Checkpoints written",
    "validations": "Validations done",
    "warnings": "Warnings",
    "starts": "Starts of the node",
}


def exposition(page: Page, status: Mapping[str, Any]) -> bytes:
    """The whole answer. `status`: the node's own, empty where it has none."""
    viewers = GaugeMetricFamily("swarm_node_page_viewers", "Browsers that look at this page", value=page.viewers)
    return generate_latest(_Now([*_of_events(page.node), *_of_status(status), viewers]))


@dataclass
class _Now(Collector):
    families: list[Metric]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


def help_of(name: str) -> str:
    """What a metric is, and its unit."""
    metric = METRICS[name]
    return f"{metric.meaning} ({metric.unit})" if metric.unit else metric.meaning


def _of_events(node: NodeWatch) -> Iterator[Metric]:
    for name, text in [*COUNTERS.items(), *((name, help_of(name)) for name in SUMMED)]:
        yield CounterMetricFamily(f"swarm_node_{name}", text, value=node.totals[name])
    yield _counted("phase_seconds", "Wall clock by phase of a round", "phase", node.seconds)
    yield _counted("skipped_groups", "Questions and groups left out, by reason", "reason", node.skipped)
    if not node.last:
        return
    figures = {**node.last["step"], **node.last}
    for name in figures.keys() & METRICS.keys() - set(SUMMED):
        yield GaugeMetricFamily(f"swarm_node_{name}", f"{help_of(name)}, in the last round", value=figures[name])
    yield GaugeMetricFamily("swarm_node_round", "Number of the last round", value=figures["round"])
    tasks = GaugeMetricFamily("swarm_node_task_reward", "Reward by task in the last round, 0 to 1", labels=["task"])
    for task, reward in figures["reward_by_task"].items():
        tasks.add_metric([task], reward)
    yield tasks
    if node.validated is not None:
        yield GaugeMetricFamily("swarm_node_validation_reward", "In the last validation, 0 to 1", value=node.validated)


def _of_status(status: Mapping[str, Any]) -> Iterator[Metric]:
    answers = "role" in status
    yield GaugeMetricFamily("swarm_node_up", "Whether the node runs and answers", value=answers)
    yield GaugeMetricFamily("swarm_node_healthy", "Whether it has no problems", value=bool(status.get("healthy")))
    if not answers:
        return
    network, training = status.get("network", {}), status.get("training", {})
    about = {"role": status["role"], "peer_id": status["peer_id"]}
    about |= {name: str(network[name]) for name in ("swarm", "protocol", "backend", "reachability") if name in network}
    yield InfoMetricFamily("swarm_node", "What the node is", value=about)
    if "seconds_since" in training:
        text = "Since the last round ended"
        yield GaugeMetricFamily("swarm_node_round_age_seconds", text, value=training["seconds_since"])
    if "received" in training:
        text = "External groups that came, those refused among them, since the node started"
        yield CounterMetricFamily("swarm_node_received_groups", text, value=training["received"])
        text = "Messages refused since the node started, by reason"
        yield _counted("refused_messages", text, "reason", training.get("rejected", {}))
    if "dropped" in network:
        text = "Messages that training was too busy to take"
        yield CounterMetricFamily("swarm_node_dropped_messages", text, value=network["dropped"])
    if network.get("running"):
        yield from _of_network(network)


def _of_network(network: Mapping[str, Any]) -> Iterator[Metric]:
    peers = network.get("peers", [])
    for name, value, text in (
        ("connected_peers", network.get("connected", 0), "Peers connected now"),
        ("relayed_peers", network.get("relayed", 0), "Of those, through a relay only"),
        ("known_peers", len(peers), "Peers known"),
    ):
        yield GaugeMetricFamily(f"swarm_node_{name}", text, value=value)
    text = "Restarts of the library under the network"
    yield CounterMetricFamily("swarm_node_network_restarts", text, value=network.get("restarts", 0))
    traffic = CounterMetricFamily(
        "swarm_node_network_bytes", "Bytes of requests and replies", labels=["protocol", "direction"]
    )
    others: dict[str, int] = {}
    for name, count in sorted(network.get("counters", {}).items()):
        protocol, middle, direction = name.rpartition(" bytes ")
        if middle and direction in ("in", "out"):
            traffic.add_metric([protocol, direction], count)
        else:
            others[name] = count
    yield traffic
    yield _counted("network_events", "What happened in the network, by name", "event", others)


def _counted(name: str, text: str, label: str, counts: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"swarm_node_{name}", text, labels=[label])
    for key, count in sorted(counts.items()):
        family.add_metric([key], count)
    return family
