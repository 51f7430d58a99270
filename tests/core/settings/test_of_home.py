"""A home may be a stranger's: which options its file sets, and what becomes of the others."""

import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import BaseModel

from swarm_node.common.errors import UserError
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import KINDS, from_command_line, from_python
from swarm_node.settings.of_home import HOME_FILE, as_flag, granted, may_set, sorted_out
from swarm_node.settings.options import Option, options
from swarm_node.settings.sections import Grants, Section, Text

# All that `join` writes there: whoever adds an option says here why it is harmless
LISTED = {
    "swarm", "network.suggested", "environment.tasks", "environment.at_once", "environment.scoring",
    "environment.answer", "environment.shots", "environment.system", "dataset.prompt",
    "dataset.answer", "dataset.template", "dataset.tolerance", "dataset.form_weight",
    "dataset.held_out", "taskset.held_out",
    # Whether the node chooses among these tasks: it asks no others for that
    "environment.choose",
    # How a prompt is framed and where a completion ends: a home goes on with it (test_asks)
    "model.template_arguments", "generation.max_completion_length", "generation.stop",
}  # fmt: skip
# What each of these options would let a stranger do
GRANTING = {
    "environment.use", "round.sampler", "training.objective", "training.scale_rewards",
    "defence.layers", "observers", "network.backend", "network.p2pd", "network.host",
    "model.name", "model.revision", "home", "manifest.source", "manifest.code", "dataset.file",
    "dataset.verifier", "dataset.salt", "taskset.name", "taskset.options", "taskset.alone",
    "taskset.variables",
    "temporal_clue.puzzles", "temporal_clue.validation_puzzles", "vllm.url", "vllm.python",
    "vllm.arguments", "vllm.folder", "page.listen", "page.names", "page.public",
    "page.open_metrics", "environment.time_limit",
}  # fmt: skip
NODE = NodeConfig


def home_with(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / HOME_FILE).write_text(text)
    return folder


def resolved(home: Path, *flags: str) -> Any:
    return from_command_line(NodeConfig, ["--home", str(home), *flags], "swarm-node run")


def test_a_home_sets_what_join_writes_and_nothing_else() -> None:
    assert set(may_set(NODE)) == LISTED
    for kind in KINDS:
        assert set(may_set(kind)) <= LISTED | {"suggested"}  # of a bootstrap node


def test_the_type_of_an_option_says_what_it_grants() -> None:
    assert {key for key, option in options(NODE).items() if granted(option)} == GRANTING


def test_an_option_put_on_a_list_by_mistake_is_refused_by_its_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every option of every command is listed: those that grant something are still refused."""
    kinds: set[type[BaseModel]] = {Section}
    while more := {inner for kind in kinds for inner in kind.__subclasses__()} - kinds:
        kinds |= more
    for kind in kinds:
        monkeypatch.setattr(kind, "from_home", frozenset(kind.model_fields), raising=False)
    assert set(may_set(NODE)) == set(options(NODE)) - GRANTING


def test_a_text_without_a_mark_counts_as_granting_something() -> None:
    class New(Section):
        from_home: ClassVar[frozenset[str]] = frozenset({"plain", "bare", "bares", "guard", "odd"})
        plain: Text = ""
        bare: str = ""
        bares: tuple[str, ...] = ()
        guard: Annotated[bool, Grants("no guard")] = False
        odd: bytes = b""

    assert set(may_set(New)) == {"plain"}


def test_a_strangers_home_loads_no_code_and_says_so_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = tmp_path / "home" / "evil.py"
    lines = [
        f'environment.use = ["{evil}:X"]',
        f'round.sampler = "{evil}:X"',
        f'network.p2pd = "{evil}"',
        'page.listen = "0.0.0.0:80"',
        'swarm = "friends"',
    ]
    home = home_with(tmp_path / "home", "\n".join(lines))
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass X: ...\n")
    config = resolved(home)
    assert config.swarm == "friends" and config.round.sampler == "uniform"
    assert config.environment.use == () and config.network.p2pd == config.page.listen == ""
    assert not (tmp_path / "ran").exists() and "swarm_node_file_evil" not in sys.modules
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot set environment.use, round.sampler, network.p2pd and 1 more" in line
    assert "start with --environment.use " in line
    assert str(evil)[:60] in line.rpartition("start with ")[2]  # long paths are cut and quoted


def test_what_the_user_gives_at_this_start_needs_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = home_with(tmp_path / "home", 'round.sampler = "x:Y"\nmodel.name = "dense"')
    config = resolved(home, "--round.sampler", "informative", "--model.name", "rare")
    assert (config.round.sampler, config.model.name) == ("informative", "rare")
    assert not capsys.readouterr().err
    assert from_python(NodeConfig, None, {"home": home}).round.sampler == "uniform"
    assert "round.sampler, model.name" in capsys.readouterr().err


def test_a_home_of_an_earlier_join_goes_on_with_what_it_may_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Earlier versions wrote files of the user there, too: the line says how to name them."""
    home = home_with(
        tmp_path / "home",
        '# swarm-node join wrote this; remove it to leave that swarm\nswarm = "friends"\n'
        'network.peers = ["/ip4/192.168.1.20/tcp/1/p2p/x"]\nenvironment.tasks = ["dataset/train"]\n'
        'environment.at_once = 0\ndataset.file = "/home/me/my tickets.csv"\n'
        'dataset.prompt = "question"\n',
    )
    config = resolved(home)
    assert config.swarm == "friends" and config.environment.tasks == ("dataset/train",)
    assert config.network.suggested == ("/ip4/192.168.1.20/tcp/1/p2p/x",)
    assert config.dataset.prompt == "question" and config.dataset.file == ""
    (line,) = capsys.readouterr().err.splitlines()
    assert "start with --dataset.file '/home/me/my tickets.csv'" in line


def test_a_secret_is_named_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved(home_with(tmp_path / "home", 'dataset.salt = "hidden"\n'))
    said = capsys.readouterr().err
    assert "--dataset.salt ..." in said and "hidden" not in said


def test_a_command_minds_only_its_own_options() -> None:
    kinds = {kind.__name__: kind for kind in KINDS}
    found = sorted_out(
        kinds["ArchiveConfig"], {"swarm": "a", "environment.use": ["x"], "file": "f"}
    )
    assert found.taken == {} and found.refused == {"file": "f"}


@pytest.mark.parametrize(
    ("key", "value", "flag"),
    [
        ("page.public", True, "--page.public"),
        ("page.public", False, "--page.no-public"),
        ("environment.use", ["a:B", "c d:E"], "--environment.use a:B 'c d:E'"),
        ("network.p2pd", "x\x1b[2J; rm", "--network.p2pd 'x?[2J; rm'"),
        ("round.sampler", "a" * 300, f"--round.sampler {'a' * 79}…"),
    ],
)
def test_a_refused_value_is_shown_as_a_flag_that_a_shell_takes(
    key: str, value: Any, flag: str
) -> None:
    option: Option = options(NODE)[key]
    assert as_flag(option, value).replace("'" + "a" * 79 + "…'", "a" * 79 + "…") == flag


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "a = " + "[" * 100_000, "a." * 200_000 + "b = 1", "a = " + "{a=" * 500,
     "x = 1\n" * 200_000, "\x00", "swarm = 1e999", "'a'." * 1000 + "b = 1"],
    ids=["brackets", "a list", "dots", "tables", "too large", "zero", "infinite", "quoted"],
)  # fmt: skip
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError) as error:
        resolved(home_with(tmp_path / "home", text))
    assert len(str(error.value).splitlines()) == 1 and HOME_FILE in str(error.value)


def test_a_link_in_a_home_is_not_followed(tmp_path: Path) -> None:
    home = home_with(tmp_path / "home", "")
    (tmp_path / "other.toml").write_text('swarm = "theirs"')
    (home / HOME_FILE).unlink()
    (home / HOME_FILE).symlink_to(tmp_path / "other.toml")
    with pytest.raises(UserError, match=r"holds a link, options\.toml"):
        resolved(home)
