"""Nothing that a command prints controls the terminal or holds a secret, whoever wrote it."""
# ruff: noqa: T201  (these tests are about what is printed)

import ast
import base64
import io
import logging
import re
import socket
import subprocess
import sys
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from rich.live import Live
from rich.table import Table

from swarm_node.commands import cli
from swarm_node.common import terminal
from swarm_node.common.console import Terminal
from swarm_node.common.errors import UserError, first_line, last_line, printable, printable_end
from swarm_node.policy import named

ROOT = Path(__file__).parents[3]
HOSTILE = (
    "a\x1b]0;title\x07\x1b[2J\x1b[31m\r\x08\x0b\x0c\x7f\x9b31m\x85\u202e\u2066\u200b\u200d\ufeff"
    "\u2028\u2029\U000e0041\u3164z"
)
SECRET = "q01ZkTnB+4&01/token7Hw"


def obeyed(text: str) -> set[str]:
    """The characters of a text that a terminal obeys or hides, except new lines."""
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return {char for char in text if unicodedata.category(char) in hidden} - {"\n"}


@contextmanager
def streams() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """What arrives behind the streams of a command."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdout, sys.stderr, warnings.formatwarning, logging.getLogRecordFactory()
    sys.stdout, sys.stderr = out, err
    terminal.guard_streams()
    terminal.guard_libraries()
    try:
        yield out, err
    finally:
        sys.stdout, sys.stderr, warnings.formatwarning = before[:3]
        logging.setLogRecordFactory(before[3])


def test_all_that_python_prints_is_escaped_and_keeps_its_lines() -> None:
    with streams() as (out, err):
        print(HOSTILE, HOSTILE, sep="\n")
        sys.stderr.writelines([HOSTILE, "\n"])
        assert out.getvalue().count("\n") == 2 and err.getvalue().endswith("?z\n")
        assert not obeyed(out.getvalue() + err.getvalue()), out.getvalue()
        print("plain: äöü 漢字 ❤ é")
        assert out.getvalue().endswith("plain: äöü 漢字 ❤ é\n")


def test_a_warning_and_a_record_of_a_library_are_one_line_each() -> None:
    with streams() as (_, err):
        log = logging.getLogger("a.library")
        log.addHandler(logging.StreamHandler(sys.stderr))
        log.warning("of %s", f"{HOSTILE}\nswarm-node: all is well")
        text = f"{HOSTILE}\r\nswarm-node: all is well"
        # As `warnings` writes it; pytest keeps warnings to itself
        sys.stderr.write(warnings.formatwarning(UserWarning(text), UserWarning, "a.py", 3, None))
        assert err.getvalue().count("\n") == 2 and not obeyed(err.getvalue())
        assert not re.search("^swarm-node", err.getvalue(), re.MULTILINE)


def test_an_error_is_one_line() -> None:
    with streams() as (_, err):

        def fail(_: object) -> None:
            raise UserError(f"model {HOSTILE}\nswarm-node: all is well")

        assert cli.outcome([], fail) == 2
        assert err.getvalue().count("\n") == 1 and not obeyed(err.getvalue())


def test_our_own_view_keeps_its_colours_and_its_text_gives_none() -> None:
    with streams() as (out, _):
        console = Terminal(
            force_terminal=True, color_system="standard", width=200, legacy_windows=False
        )
        table = Table(HOSTILE)
        table.add_row(HOSTILE, style="red")
        with Live(table, console=console, refresh_per_second=1):
            print(f"{HOSTILE}\x1b]8;;http://x\x1b\\[link=http://x]y[/link] [/b]")
            print(HOSTILE, end="", file=sys.stderr)
            sys.stderr.flush()
        drawn = out.getvalue()
        assert "\x1b[31m" in drawn and "\x1b[?25l" in drawn and "\x1b[?25h" in drawn
        rest = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).replace("\r", "")
        assert not obeyed(rest), obeyed(rest)
        assert "\x1b[2J" not in drawn and "\x1b]" not in drawn and "[/b]" in drawn
        assert isinstance(sys.stdout, terminal.Escaping), "the view gives the streams back"


def test_a_bar_of_a_download_is_drawn_and_says_nothing_else() -> None:
    with streams() as (_, err):
        with terminal.progress_bars():
            print("\r 10% of a\rb\x1b[A", end="", file=sys.stderr)
            print("\n\x1b[A\r 20%", end="", file=sys.stderr)
        print("\r 30%", end="", file=sys.stderr)
        assert err.getvalue() == "\r 10% of a?b?[A\n\x1b[A\r 20%? 30%"


def test_what_code_below_python_writes_is_kept_from_the_terminal() -> None:
    code = f"""
import os, sys
from swarm_node.common import terminal
terminal.guard_streams()
with terminal.native_kept("a library"):
    os.write(1, {HOSTILE!r}.encode() + b"\\nswarm-node: all is well\\n")
    print("meanwhile", flush=True)
try:
    with terminal.native_kept("a library"):
        os.write(2, b"panicked")
        raise KeyError
except KeyError:
    print("raised")
os.write(1, b"afterwards\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "meanwhile\nraised\nafterwards\n"
    assert done.stderr.startswith("a library: a?]0;title") and done.stderr.count("\n") == 1
    assert not obeyed(done.stderr)


# Secrets


@pytest.mark.parametrize("cut", [printable, first_line, last_line, printable_end])
@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        SECRET[:8],
        f"https://user:{SECRET}@host/simple",
    ],
    ids=["plain", "quoted", "quoted partly", "base64", "its beginning", "an address"],
)
def test_a_secret_is_hidden_before_a_text_is_cut(
    cut, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", SECRET)
    for most in range(4, 60):
        for text in (f"at {form} it failed", f"{'x' * 20} {form}"):
            shown = cut(text, most)
            assert len(shown) <= most
            of_it = form.rpartition("user:")[2]
            assert not any(of_it[start : start + 3] in shown for start in range(6)), shown


def test_an_address_that_is_cut_in_its_password_shows_none_of_it() -> None:
    address = f"https://user:{SECRET}@host/simple"
    for most in range(4, 60):
        assert SECRET[:3] not in first_line(ValueError(f"bad {address}"), most)


def answer(head: bytes) -> tuple[str, threading.Thread]:
    """A server on loopback that answers twice with these bytes; its address, without scheme."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head)
        listener.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"127.0.0.1:{listener.getsockname()[1]}", thread


@pytest.mark.parametrize("length", range(0, 110, 7))
def test_the_token_of_a_private_hub_is_not_shown(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the message was cut to 120 characters first, and half a password is not found."""
    head = "no HTTP \x1b[31mgone\x9b2J\r\ncontent-length: 0\r\n\r\n".encode("latin-1")
    host, _ = answer(head)
    user, token = "u" * (length + 1), f"{SECRET.replace('/', '_')}{'k' * 60}"
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", f"http://{user}:{quote(token, safe='')}@{host}/hub")
    named.only_here.cache_clear()
    with pytest.raises(UserError) as raised:
        named.only_here("nobody/nothing")
    said = str(raised.value)
    assert "127.0.0.1" in said and not obeyed(said)
    assert quote(token, safe="")[:4] not in said and "kkkk" not in said, said


# The tree

# Cuts that are no text for a person: file -> what is cut
CUTS = {
    "home/asks.py": ("list(shown.items())[:NAMED]",),
    "common/errors.py": ("_without(text, secrets)[:limit + 1]", "shown[:limit - 1]"),
    "contribute/api.py": ("text.strip()[:64]",),
    "environments/dataset/compile.py": ("text[:400]",),
    "environments/dataset/verifiers.py": ("text[-MAX_CHARS:]",),
    # Some of the texts of a task set
    "environments/taskset/compile.py": (
        "list(dict.fromkeys(['', '0', *library.own_texts(data)]))[:TRIED_TEXTS]",
    ),
    "swarm/code.py": ("text[:2 * MAX_CHARS]",),
    "simulation/engines/real_nodes.py": ("lines[-LINES:]",),  # whole lines
    "environments/temporal_clue/puzzle_file.py": ("text[:LONGEST]",),
    "generation/stops.py": ("text[:end]",),
    "network/transport/multiaddr.py": ("text[:-len(f'/p2p/{peer}')]",),
    "node/evaluation.py": ("text[:SHOWN]", "last[:SHOWN]"),
    "rollouts/defence.py": ("text[:READ]", "text[-READ:]"),
    "telemetry/samples.py": ("text[:limit]", "messages[:MESSAGES]"),
}
TEXT = re.compile(
    r"error|str\(|lines|last|message|said|text|stderr|decode\(|repr\(|ascii\(|first_line|printable"
    r"|hidden|shown|reason|detail|why|told"
)


def cuts(source: str) -> list[str]:
    """The slices of a file that shorten what may be a text for a person."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
            continue
        end = node.slice.upper or node.slice.lower
        long = isinstance(end, ast.Constant) and isinstance(end.value, int) and end.value >= 20
        negative = isinstance(end, ast.UnaryOp) and ast.unparse(end.operand) not in "1234"
        named = isinstance(end, ast.Name | ast.BinOp) and node.slice.lower is None
        if (long or negative or named) and TEXT.search(ast.unparse(node.value)):
            found.append(ast.unparse(node))
    return found


def test_nothing_else_cuts_a_text_that_is_shown() -> None:
    found = {}
    for file in sorted((ROOT / "swarm_node").rglob("*.py")):
        here = str(file.relative_to(ROOT / "swarm_node"))
        if names := set(cuts(file.read_text(encoding="utf-8"))):
            found[here] = names
    allowed = {file: set(names) for file, names in CUTS.items()}
    assert found == allowed, "use printable, first_line or last_line of common/errors.py"


def test_a_new_cut_would_be_found() -> None:
    for source in (
        "x = str(error)[:100]",
        "x = lines[-1][:300]",
        "x = hidden(first_line(error, 10_000))[:200]",
        "x = ascii(text)[1:-1][-300:]",
        "x = reply.content.decode()[:MOST]",
        "x = error.args[0][:LIMIT]",
    ):
        assert cuts(source), source


def test_nothing_draws_on_another_console_or_prints_past_the_streams() -> None:
    for file in (ROOT / "swarm_node").rglob("*.py"):
        if file.name == "console.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("Console", "rich.print", "sys.__stderr__.write"), file
