"""What a page shows, and to whom."""

from pathlib import Path

from swarm_node.settings.sections import Section

LISTEN = "127.0.0.1:8420"


class PageConfig(Section):
    """A run in a browser: a node's home, or the report folder of a simulation."""

    folder: Path = Path("~/.swarm-node")
    """What to show; it can be named without the flag: swarm-node page FOLDER."""
    listen: str = LISTEN
    """HOST:PORT to listen on. Port 0 takes a free one; so does the default where its port is taken."""
    names: tuple[str, ...] = ()
    """Host names by which the page is reached, for instance behind a proxy. Numbers and localhost always work."""
    token: bool = True
    """Ask for the token. Without it everybody who can reach the port sees all."""
    public: bool = False
    """Show the public view at / without the token. It is read-only and has no addresses; all else needs the token."""
    open_metrics: bool = False
    """Answer /metrics without the token."""
    with_parent: bool = False
    """End when standard input is closed, as it is when the process that started the page has gone."""
