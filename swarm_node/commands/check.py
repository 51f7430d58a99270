"""`swarm-node check`: what a configuration comes to on this machine, before anything runs."""

import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from swarm_node.settings import NodeConfig
from swarm_node.settings.sources import describe, environment_values, flatten, located, read_file, resolve


def command(argv: list[str]) -> None:
    """Resolve a configuration as `run` would, explain it, and find what would go wrong."""
    if argv[:1] in (["--help"], ["-h"]):
        print("usage: swarm-node check [CONFIG.toml]   every option: value, where it comes from, what it means")
        return
    file = Path(argv[0]) if argv else None
    config = located(resolve(NodeConfig, file, os.environ), file.expanduser().parent if file else Path())
    in_file = flatten(read_file(file)) if file else {}
    in_environment = flatten(environment_values(NodeConfig, os.environ))
    shown = Table("option", "value", "from", "meaning", title=f"{file or 'defaults'}, as swarm-node run sees it")
    texts = describe(NodeConfig)
    for key, value in flatten(config.model_dump(mode="json")).items():
        source = "environment" if key in in_environment else "file" if key in in_file else "default"
        shown.add_row(key, _show(value), source, texts.get(key, ""), style="bold" if source != "default" else "")
    Console().print(shown)
    from swarm_node.assembly.learner import examine  # now: it loads torch

    for line in examine(config):
        print(line)
    import torch

    from swarm_node.assembly.asynchronous import advice
    from swarm_node.telemetry.manifest import usable_cores

    print(advice(config, usable_cores(), torch.cuda.device_count()))


def _show(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
