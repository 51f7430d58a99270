"""`swarm-node simulate`. Imports no torch: the workers do."""

from swarm_node.commands.command import Command
from swarm_node.extensions.simulation.main import simulate
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.settings.command_line import from_command_line

PAGE = """\
usage: swarm-node simulate [CONFIG.toml] [--flags]

Many nodes on this machine: what does sharing bring? Writes report.json,
report.csv, rewards.png, manifest.json and events.jsonl.

  --nodes N                      of the swarm, each with a policy of its own (8)
  --arms I/J ...                 own and external groups per round: 8/0,4/4
  --rounds N                     of every arm and seed (150)
  --seeds N                      repetitions of every arm (1)
  --out FOLDER                   where the report goes (runs/simulation)
  --resume, --overwrite          go on with the report that is there; replace it
  --workers N                    processes side by side (one per core)
  --model.name NAME              smollm2-135m, a starter, folder or hub name
  --evaluate-every N             rounds between held-out questions of all tasks
  --node-models NAME ...         models of nodes 0, 1, ... in turn
  --training.learning-rate RATE  3e-4 for starters, 1e-6 to 1e-5 for others
  --faults.loss SHARE            of the messages is lost; --faults.die 3@40
  --attack KIND                  hostile nodes, such as stealth, lies or flood
  --defence LAYER ...            length, ngrams, rescue (no layer)
  --engine NAME                  memory, or process"""


def command(argv: list[str]) -> None:
    """Writes a report folder, and shows its figures."""
    simulate(from_command_line(SimulationConfig, argv, "swarm-node simulate"))


SIMULATE = Command(SimulationConfig, PAGE, command)
