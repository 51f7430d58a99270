"""Many nodes in one experiment: arms, seeds, faults, report. Start with `main.simulate`.

The parent process never imports torch. It starts a worker process for each arm and seed, and
collects their messages.
"""

from swarm_node.commands.command import Entry, Purpose

_AT, _FILE = "swarm_node.extensions.simulation", "[CONFIG.toml] [--flags]"
SIMULATE = Entry(
    f"{_AT}.main:SIMULATE",
    _FILE,
    "many nodes here: what does sharing bring?",
    Purpose.TRY,
    lasting=True,
)
PLOT = Entry(
    f"{_AT}.plot_command:PLOT",
    "RUN ... [--out FOLDER]",
    "figures of simulations, as PNG and SVG",
    Purpose.LOOK,
)
