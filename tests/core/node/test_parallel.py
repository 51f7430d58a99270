"""Which devices a node takes, what each of its processes gets of the machine, and how work is cut
into parts.
"""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.common.errors import UserError
from swarm_node.node import parallel
from swarm_node.node.parallel import balanced, config_of_process, devices_of, parts_of
from swarm_node.policy.batch import unrecorded
from swarm_node.settings import NodeConfig

RTX = ("NVIDIA GeForce RTX 3090", 24)


def config(devices="auto", device="auto", **options) -> NodeConfig:
    return NodeConfig(model={"devices": devices, "device": device}, **options)


@pytest.fixture
def cards(monkeypatch):
    """Lets torch find these cards, by name and memory."""

    def there(*found) -> None:
        kinds = [SimpleNamespace(name=name, total_memory=memory) for name, memory in found]
        monkeypatch.setattr(parallel.torch.cuda, "device_count", lambda: len(kinds))
        monkeypatch.setattr(parallel.torch.cuda, "get_device_properties", kinds.__getitem__)

    return there


def test_a_node_takes_all_cards_of_the_kind_of_the_first(cards) -> None:
    cards(RTX, ("NVIDIA GeForce GT 1030", 2), RTX, ("NVIDIA GeForce RTX 3090", 12))
    assert devices_of(config()) == ("cuda:0", "cuda:2")
    assert devices_of(config(device="cuda")) == ("cuda:0", "cuda:2")
    assert devices_of(config(device="cuda:2")) == ("cuda:2",)
    assert devices_of(config(device="cpu")) == ("cpu",)
    assert devices_of(config("1")) == ("auto",)
    assert devices_of(config("2")) == ("cuda:0", "cuda:1")
    assert devices_of(config("cuda:2, cuda:3", "cpu")) == ("cuda:2", "cuda:3")


def test_a_node_on_a_cpu_or_on_one_card_has_one_process_unless_it_is_asked(cards) -> None:
    cards()
    assert devices_of(config()) == ("auto",)
    assert devices_of(config("cpu,cpu")) == devices_of(config("2")) == ("cpu", "cpu")
    cards(RTX)
    assert devices_of(config()) == ("auto",)
    assert devices_of(config("2", "cpu")) == ("cpu", "cpu")


@pytest.mark.parametrize(
    "other", [{"asynchronous": {"enabled": True}}, {"vllm": {"url": "http://127.0.0.1:8000"}}]
)
def test_a_node_that_generates_elsewhere_takes_one_device(cards, other) -> None:
    cards(RTX, RTX)
    assert devices_of(config(**other)) == ("auto",)
    with pytest.raises(UserError, match=r"model\.devices 2 does not work with --"):
        devices_of(config("2", **other))


@pytest.mark.parametrize(
    ("devices", "device", "why"),
    [
        ("3", "auto", "torch finds 2 GPUs here; give at most 2"),
        ("2", "mps", "does not fit model.device mps"),
        ("cpu,cuda:0", "auto", "name devices of one kind"),
        ("cuda:0,cuda:2", "auto", "torch finds 2 GPUs here, and cuda:2 is none of them"),
    ],
)
def test_devices_that_cannot_work_together_are_refused_in_one_line(
    cards, devices, device, why
) -> None:
    cards(RTX, RTX)
    with pytest.raises(UserError, match=why):
        devices_of(config(devices, device))


@pytest.mark.parametrize("text", ["0", "", "cpu,", "cuda:", "-1", "cpu;cpu"])
def test_what_names_no_devices_is_refused_before_anything_starts(text) -> None:
    with pytest.raises(UserError, match="must be auto, a number"):
        config(text)


def test_each_process_gets_its_share_of_cores_and_of_memory(monkeypatch) -> None:
    monkeypatch.setattr(parallel, "usable_cores", lambda: 9)
    monkeypatch.setattr(parallel.memory, "available", lambda: 8e9)
    asked = config("cpu,cpu,cpu,cpu")
    assert config_of_process(asked, ("auto",), 0) is asked
    second = config_of_process(asked, ("cpu",) * 4, 1)
    assert (second.threads, second.model.device, second.limits.memory) == (2, "cpu", 2000)
    limited = asked.model_copy(
        update={"threads": 3, "limits": asked.limits.model_copy(update={"memory": 500})}
    )
    assert config_of_process(limited, ("cpu",) * 4, 1).limits.memory == 500
    assert config_of_process(limited, ("cpu",) * 4, 1).threads == 3
    assert config_of_process(asked, ("cuda:1",), 0).model.device == "cuda:1"
    card = config_of_process(asked, ("cuda:0", "cuda:1"), 1)
    assert (card.threads, card.model.device, card.limits.memory) == (4, "cuda:1", 0)


@given(st.integers(0, 200), st.integers(1, 16))
def test_parts_take_every_place_once_and_differ_by_one_at_most(count, parts) -> None:
    made = parts_of(count, parts)
    assert [place for part in made for place in part] == list(range(count))
    sizes = [len(part) for part in made]
    assert len(sizes) == parts and max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(1, 60), max_size=20), st.integers(1, 5))
def test_groups_are_cut_into_parts_of_about_as_many_tokens(lengths, parts) -> None:
    groups = [unrecorded([1] * length, [[2]]) for length in lengths]
    made = balanced(groups, parts)
    assert sorted(map(id, groups)) == sorted(id(group) for part in made for group in part)
    tokens = [sum(group.length for group in part) for part in made]
    assert len(tokens) == parts
    assert max(tokens) - min(tokens) <= max([0, *(group.length for group in groups)])
    assert not groups or made[0], "the trainer itself always has a part"
