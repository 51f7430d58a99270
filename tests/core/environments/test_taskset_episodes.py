"""Task sets of verifiers with tools, a setup and several turns: one node asks, another replays."""

import base64
import io
import json
import os
import re
import signal
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from protocol import codec
from protocol.admission import admit
from protocol.identity import Identity
from protocol.messages import Episode, Question, RolloutGroup, Round
from protocol.turns import Call, Turn
from swarm_node.common.errors import UserError
from swarm_node.environments.taskset.compile import compiled
from swarm_node.environments.taskset.environment import Findings, TasksetEnvironment
from swarm_node.environments.taskset.offline import OfflineRuntime, OutOfReach, needed_packages
from swarm_node.environments.taskset.pictures import words_for
from swarm_node.environments.taskset.quiet import run
from swarm_node.environments.taskset.source import EpisodesSource, OtherTask
from swarm_node.network.process.messages import Rules
from swarm_node.rollouts.groups import Group, Played
from swarm_node.settings import EnvironmentConfig
from swarm_node.settings.questions import TasksetConfig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FOLDER = Path(__file__).with_name("tasksets")
SWARM = "people"
COLOURS = {"ff0000": "R", "00ff00": "G", "0000ff": "B"}

# Prompt, and what the environment said to each turn so far -> the next turn
Policy = Callable[[str, list[tuple[str, ...]]], Turn]


def looks_up(prompt: str, said: list[tuple[str, ...]]) -> Turn:
    """Looks a person up, and then gives the fact."""
    if said:
        return Turn(f"<answer>{said[0][0]}</answer>")
    assert "book_find(name: str): Says what somebody is known for." in prompt
    found = re.search("Find (.+) in the book", prompt)
    assert found is not None
    return Turn("", (Call("book_find", json.dumps({"name": found[1]})),))


def adds(prompt: str, said: list[tuple[str, ...]]) -> Turn:
    """Adds the two numbers and one half, and writes another fraction than the file has."""
    one, other = map(int, re.findall(r"\d+", prompt)[:2])
    return Turn(f"{4 * (one + other) + 2}/4")


def reads(prompt: str, said: list[tuple[str, ...]]) -> Turn:
    """Says all letters that were shown."""
    shown = " ".join([prompt, *(text for texts in said for text in texts)])
    return Turn("".join(COLOURS[found] for found in re.findall("#([0-9a-f]{6})", shown)))


@dataclass(frozen=True)
class Case:
    """A task set, and how its questions are answered."""

    name: str
    right: Policy
    wrong: str  # said in place of each text
    turns: int  # of a right episode


CASES = (
    Case("people_facts", looks_up, "an actress", 2),
    Case("people_sums", adds, "7", 1),
    Case("people_colours", reads, "RRRR", 3),
)


def configured(name: str, folder: Path) -> TasksetConfig:
    """A task set with the questions that it reads from a file, if it does."""
    options = ""
    if name == "people_sums":
        rows = [
            {"question": f"{n} + {n + 3} + 1/2?", "answer": f"It is\n#### {4 * n + 7}/2"}
            for n in range(8)
        ]
        file = folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = json.dumps({"file": str(file)})
    return TasksetConfig(name=str(FOLDER / f"{name}.py"), options=options, held_out=0.0)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def swarm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Case, TasksetEnvironment, TasksetEnvironment]]:
    """An author, and a peer that reads the task set by itself: in this process."""
    case: Case = request.param
    folder = tmp_path_factory.mktemp(case.name)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(folder / "hub"))
        config = configured(case.name, folder)

        def read_here(asked: TasksetConfig, files: Sequence[Path]) -> list[Findings]:
            told = json.dumps(compiled(asked, files[0]))
            return [Findings.model_validate_json(told)]

        about = ["taskset/train"], config, EnvironmentConfig()
        author, peer = TasksetEnvironment(*about), TasksetEnvironment(*about, read_here)
        for environment in (author, peer):
            environment.swarm = SWARM
            stack.callback(environment.close)
        yield case, author, peer


def played_by(
    environment: TasksetEnvironment, question: Question, policy: Policy
) -> tuple[tuple[Turn, ...], Played]:
    """An episode of this policy, turn by turn as a generating node plays it."""
    (prompt,) = environment.prompts([question])
    assert isinstance(prompt, str)
    turns: tuple[Turn, ...] = ()
    said: list[tuple[str, ...]] = []
    while True:
        turns = (*turns, policy(prompt, said))
        ((played,),) = environment.play([(question, [turns])])
        assert isinstance(played, Played)
        if played.done:
            return turns, played
        said = list(played.observations)


def test_three_rounds_pay_right_answers_alone_and_a_peer_replays_them(
    swarm: tuple[Case, TasksetEnvironment, TasksetEnvironment],
) -> None:
    case, author, peer = swarm
    identity = Identity.create()
    rules = Rules.of(SWARM, peer.catalogue).admission(Identity.create().peer_id)

    def wrong(prompt: str, said: list[tuple[str, ...]]) -> Turn:
        turn = case.right(prompt, said)
        return turn if turn.calls else Turn(case.wrong)

    for number in range(3):
        for question in author.sample(identity.peer_id, Round(number), 2):
            both = [played_by(author, question, policy) for policy in (case.right, wrong)]
            assert [played.score for _, played in both] == [1.0, 0.0]
            assert len(both[0][0]) == case.turns
            episodes = [
                Episode(ended=True, trace=played.trace, turns=turns) for turns, played in both
            ]
            group = Group.of_text(identity.peer_id, Round(number), question, episodes)
            message = admit(codec.seal(group.message(), identity, SWARM), rules)
            assert isinstance(message, RolloutGroup), message
            again = [(message.question, [episode.turns for episode in message.episodes])]
            assert peer.play(again) == [tuple(played for _, played in both)]
            assert peer.prompts([question]) == author.prompts([question])


def test_peers_agree_on_the_version_and_the_digest(
    swarm: tuple[Case, TasksetEnvironment, TasksetEnvironment],
) -> None:
    case, author, peer = swarm
    assert author.facts == peer.facts
    task = ("taskset", "train")
    assert author.digest(task) == peer.digest(task)
    assert author.catalogue.several == ({} if case.turns == 1 else {"taskset": 6})


def test_text_beside_a_right_answer_is_not_paid(
    swarm: tuple[Case, TasksetEnvironment, TasksetEnvironment],
) -> None:
    case, author, _ = swarm

    def talks(prompt: str, said: list[tuple[str, ...]]) -> Turn:
        turn = case.right(prompt, said)
        return turn if turn.calls else Turn(turn.text + "\n" + "visit evil.example " * 20)

    (question,) = author.sample(Identity.create().peer_id, Round(5), 1)
    assert played_by(author, question, talks)[1].score == 0.0


def read(name: str, folder: Path) -> dict[str, object]:
    return compiled(configured(name, folder), folder / "questions.json")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("people_poker", "its environment has several agents (white, black)"),
        ("people_golf", "its environment judges several attempts or agents together (finalize)"),
    ],
)
def test_what_cannot_be_played_is_refused_for_the_right_reason(
    tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(UserError) as raised:
        read(name, tmp_path)
    assert reason in str(raised.value) and "\n" not in str(raised.value)


def test_a_question_whose_task_has_another_hash_is_not_asked(tmp_path: Path) -> None:
    facts = read("people_facts", tmp_path)
    file = tmp_path / "questions.json"
    written = json.loads(file.read_text())
    rows = written["rows"]["train"]
    assert [row["hash"] for row in rows] == facts["hashes"]
    source, timer = EpisodesSource(str(file)), signal.setitimer
    assert source.begin("taskset", "train", 0, 0).prompt
    assert signal.setitimer is timer, "it bounds how long a question may take"
    for row in rows:
        row["data"]["answer"] = "something else"
    file.write_text(json.dumps(written))
    with pytest.raises(OtherTask):
        EpisodesSource(str(file)).begin("taskset", "train", 0, 0)


def test_a_script_runs_without_a_runtime_and_nothing_else_does() -> None:
    runtime = OfflineRuntime()
    script = b"import sys\nprint(int(sys.argv[1]) * 2)\nsys.exit(3)"
    done = run(runtime.run_uv_script(script, args=["21"]))
    assert (done.exit_code, done.stdout) == (3, "42\n")
    assert run(runtime.run_uv_script(b"1 / 0")).exit_code == 1
    run(runtime.write("/a", b"text"))
    assert run(runtime.read("/a")) == b"text" and not runtime.wanted
    with pytest.raises(OutOfReach):
        run(runtime.run(["ls"], {}))
    assert runtime.wanted == "run"
    with pytest.raises(OutOfReach):
        runtime.expose(80)
    assert runtime.wanted == "expose"
    needing = b"# /// script\n# dependencies = ['no-such-package-here>=1']\n# ///\nprint(1)"
    assert needed_packages(needing) == ["no-such-package-here"]
    with pytest.raises(OutOfReach, match="no-such-package-here"):
        run(runtime.run_uv_script(needing))


def test_a_picture_is_said_where_words_say_all_of_it() -> None:
    from PIL import Image
    from verifiers.v1.utils.image import image_data_url

    plain = Image.new("RGB", (3, 2), (255, 165, 0))
    assert words_for(image_data_url(plain)) == "[picture of 3 x 2 pixels, all of colour #ffa500]"
    plain.putpixel((0, 0), (0, 0, 0))
    assert words_for(image_data_url(plain)) == ""
    for wrong in ("http://example.org/a.png", "data:image/png;base64,AAAA", "data:,", ""):
        assert words_for(wrong) == ""


def test_a_picture_that_was_made_to_trouble_its_reader_is_no_picture_and_starts_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    ran = tmp_path / "ran"
    program = tmp_path / "gs"  # as Pillow would start it for a picture of kind EPS
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    small = io.BytesIO()
    Image.new("RGB", (1, 1)).save(small, "PNG")
    huge = bytearray(small.getvalue())
    huge[16:24] = struct.pack(">II", 50_000, 50_000)  # width and height, in its first chunk
    huge[29:33] = struct.pack(">I", zlib.crc32(huge[12:29]))
    for data in (eps, bytes(huge), bytes(huge[:40])):
        url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        assert words_for(url) == ""
    assert not ran.exists()
