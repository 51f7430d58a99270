"""A page beside the node that asked for it: a process of its own. Whatever becomes of it, the node goes on."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from swarm_node.common.children import OF_THE_USER, clean_environment
from swarm_node.common.printable import printable
from swarm_node.settings import BootstrapConfig, NodeConfig
from swarm_node.settings.page import LISTEN, listening

END_SECONDS = 3.0


def completed(argv: Sequence[str]) -> list[str]:
    """`--page` without a value has the usual address."""
    ends = [*argv[1:], "--"][: len(argv)]
    return [
        f"--page={LISTEN}" if one == "--page" and next_.startswith("-") else one
        for one, next_ in zip(argv, ends, strict=True)
    ]


@contextmanager
def beside(
    home: Path,
    config: NodeConfig | BootstrapConfig,
    show: Callable[[str], None],
    public: bool = False,
    started: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Lives as long as the context, where one is asked for. `show` gets its lines: the address, and what is wrong.
    `started` is called when its process runs, and before there is a thread that listens to it."""
    if not config.page:
        started()
        yield
        return
    listening(config.page)  # a mistake in it is worth no process
    public = public or (isinstance(config, NodeConfig) and config.page_public)
    command = [sys.executable, "-P", "-m", "swarm_node", "page", str(home), "--listen", config.page, "--with-parent"]
    command += ["--names", *config.page_names] if config.page_names else []
    command += [flag for flag, on in (("--public", public), ("--open-metrics", config.page_open_metrics)) if on]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(  # type: ignore[call-overload]
        command,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for the node: the page ends with it
        env=clean_environment(OF_THE_USER),
        **streams,
    )
    started()
    closing = threading.Event()
    listener = threading.Thread(target=_pass_on, args=(process, show, closing), daemon=True, name="page")
    listener.start()
    try:
        yield
    finally:
        closing.set()
        process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(PermissionError):  # of a confined node, whose page ends when it finds itself alone
                process.kill()
                process.wait()


def _pass_on(process: "subprocess.Popen[str]", show: Callable[[str], None], closing: threading.Event) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if not closing.is_set():
            show(printable(line.rstrip("\n"), 400))
    if not closing.is_set():
        show(f"the page has ended, exit code {process.wait()}; the node goes on: swarm-node page starts another one")
