"""Which device a policy gets, and what that device can do. CUDA is stood in for by its functions;
tests/gpu asks a card.
"""

import pytest
import torch

from swarm_node.common.cards import Gpu
from swarm_node.common.errors import UserError
from swarm_node.policy import hardware, named
from swarm_node.policy.hardware import choose_device, exact_device, multiplies_bfloat16
from swarm_node.policy.loading import autocast_dtype, slow_bfloat16, weights_dtype
from swarm_node.settings import ModelConfig

CAPABILITIES = {0: (8, 6), 1: (7, 5)}  # of an RTX 3060 and an RTX 2060
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
LORA = ModelConfig(lora_rank=8)


@pytest.fixture
def two_cards(monkeypatch) -> list[torch.device]:
    """A machine with two cards. Returns the devices that were made current."""
    current: list[torch.device] = []
    empty = torch.empty
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(
        torch.cuda, "get_device_capability", lambda device: CAPABILITIES[device.index]
    )
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "RTX 2060")
    # As torch answers it, whatever device is meant: it asks the current one, and counts emulation
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    monkeypatch.setattr(torch, "empty", lambda *size, device=None: empty(*size))
    return current


def test_the_device_of_a_policy_is_made_the_current_one(two_cards) -> None:
    assert choose_device("cuda:1") == SECOND
    assert two_cards == [SECOND]


def test_a_name_without_a_number_leaves_the_current_device(two_cards) -> None:
    assert choose_device("cuda") == choose_device("auto") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")
    assert two_cards == []


def test_bfloat16_is_for_cards_that_multiply_it(two_cards) -> None:
    assert multiplies_bfloat16(FIRST) and not multiplies_bfloat16(SECOND)
    assert not multiplies_bfloat16(torch.device("cpu"))
    assert (weights_dtype(LORA, FIRST), autocast_dtype(LORA, FIRST)) == (torch.bfloat16,) * 2
    assert (weights_dtype(LORA, SECOND), autocast_dtype(LORA, SECOND)) == (torch.float32, None)


def test_a_user_is_told_that_a_card_computes_in_float32(two_cards) -> None:
    assert "float32" in slow_bfloat16(LORA, SECOND) and "RTX 2060" in slow_bfloat16(LORA, SECOND)
    wanted = ModelConfig(lora_rank=8, dtype="bfloat16")
    assert "--model.dtype float32 is faster" in slow_bfloat16(wanted, SECOND)
    assert slow_bfloat16(LORA, FIRST) == slow_bfloat16(LORA, torch.device("cpu")) == ""


def test_a_card_that_torch_cannot_use_is_said_once(monkeypatch) -> None:
    told: list[str] = []
    hardware.say_unusable.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(hardware, "cards", lambda: [Gpu("RTX 3060", "550.54", 8.6)])
    monkeypatch.setattr(named, "say", told.append)
    assert choose_device("auto") == choose_device("auto") == torch.device("cpu")
    assert len(told) == 1 and "the CPU is used: RTX 3060 with driver 550.54" in told[0]
    hardware.say_unusable.cache_clear()


def test_a_card_that_was_asked_for_and_cannot_be_used_gets_the_same_remedy(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(hardware, "cards", lambda: [Gpu("RTX 3060", "580.65", 8.6)])
    with pytest.raises(UserError, match=r"'cuda' cannot be used.* pip install .*whl/cu130"):
        choose_device("cuda")


def test_float64_is_computed_on_the_cpu_beside_a_device_without_it(monkeypatch) -> None:
    zeros, device = torch.zeros, torch.device("mps")

    def refusing(*size, dtype=None, device=None):
        if device.type == "mps" and dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return zeros(*size, dtype=dtype)

    exact_device.cache_clear()
    monkeypatch.setattr(torch, "zeros", refusing)
    assert exact_device(device) == exact_device(torch.device("cpu")) == torch.device("cpu")
    exact_device.cache_clear()
