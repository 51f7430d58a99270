"""Loading a policy: what is refused, in one line; and what a policy makes of text."""

import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from swarm_node.common.errors import UserError
from swarm_node.policy.loading import load_policy
from swarm_node.settings import ModelConfig
from tests.models import BOS, EOS, characters, tiny_model, tiny_policy, with_lora


@pytest.fixture
def folder(tmp_path):
    """A good model folder, for a test to break."""
    path = tmp_path / "model"
    tiny_model().save_pretrained(path)
    characters().save_pretrained(path)
    return path


def load(path, **fields):
    return load_policy(ModelConfig(name=str(path), device="cpu", **fields))


def refusal(path, **fields) -> str:
    with pytest.raises(UserError) as caught:
        load(path, **fields)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


def test_a_good_folder_loads_with_the_weights_in_it(folder) -> None:
    policy = load(folder)
    ids = torch.tensor([[BOS, 20, 30]])
    assert torch.equal(policy.model(input_ids=ids).logits, tiny_model()(input_ids=ids).logits)
    assert (policy.eos_ids, policy.context_length) == (frozenset({EOS}), 128)


def test_where_there_is_no_model_the_place_is_named(tmp_path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere") and "no config.json" in refusal(
        tmp_path
    )
    # Of the hub, which is offline
    assert "no-such-model" in refusal("someone/no-such-model-anywhere")


@pytest.mark.parametrize("size", [0, 5, 2000, -100])
def test_broken_weights_are_refused(folder, size) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    assert "cannot load model" in refusal(folder)


def test_missing_weights_are_refused_and_not_made_up(folder) -> None:
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layers.1" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    assert "9 weights are missing" in refusal(folder)


@pytest.mark.parametrize(
    "text", ["", "{", '{"model_type": "llama", "hidden', "[]", '{"model_type": "no such type"}']
)
def test_a_broken_configuration_is_refused(folder, text) -> None:
    (folder / "config.json").write_text(text)
    assert "cannot load model" in refusal(folder)


def test_weights_of_another_shape_are_refused(folder) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    assert "cannot load model" in refusal(folder)


def test_a_folder_without_a_tokenizer_is_refused(folder) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert "cannot load model" in refusal(folder)


def test_pickled_weights_are_refused_and_never_opened(folder, tmp_path) -> None:
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    torch.save({"bomb": Bomb()}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert "safetensors" in refusal(folder)
    assert not (tmp_path / "exploded").exists()


def test_code_that_comes_with_a_model_is_not_run_and_nobody_is_asked(
    folder, tmp_path, monkeypatch
) -> None:
    config = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.EvilModel"}
    (folder / "config.json").write_text(
        json.dumps({**config, "model_type": "evil", "auto_map": code})
    )
    (folder / "evil.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w')\nclass EvilConfig: pass\n"
    )

    class Yes:  # somebody at the terminal who agrees to everything
        asked = 0

        def readline(self, *_):
            self.asked += 1
            return "y\n"

    person = Yes()
    monkeypatch.setattr(sys, "stdin", person)
    assert "cannot load model" in refusal(folder)
    assert person.asked == 0
    assert not (tmp_path / "ran").exists()


def test_a_device_that_is_not_there_is_named() -> None:
    for device in ("tpu7", "cuda:99"):
        with pytest.raises(UserError, match=device) as caught:
            load_policy(ModelConfig(name="rare", device=device))
        assert "\n" not in str(caught.value)


def test_on_the_cpu_weights_are_float32_unless_asked_otherwise(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert load(folder).model.dtype == torch.float32
    assert (
        load(folder, dtype="bfloat16").model.dtype == torch.bfloat16
        and load(folder).autocast_dtype is None
    )
    assert capsys.readouterr().err.count("--model.dtype float32 is several times as fast") == 1


def test_a_chat_template_is_used_where_there_is_one() -> None:
    plain, chat = tiny_policy(), tiny_policy(chat=True)
    assert plain.decode([plain.encode_prompt("1+1")]) == ["1+1"]
    assert chat.encode_prompt("1+1") == [BOS, *chat.tokenizer("1+1\n").input_ids]


def test_dropout_is_off() -> None:
    model = tiny_model("GPT2", resid_pdrop=0.5, attn_pdrop=0.5, embd_pdrop=0.5).train()
    from swarm_node.policy.policy import Policy

    policy = Policy(model, characters(), torch.device("cpu"))
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(policy.forward(input_ids=ids).logits, policy.forward(input_ids=ids).logits)


def test_a_policy_says_whether_it_has_adapters_and_computes_without_them() -> None:
    whole, ids = tiny_policy(), torch.tensor([[BOS, 20, 30]])
    alone = whole.model(input_ids=ids).logits
    assert not whole.has_adapters and whole.causal is whole.model
    with whole.without_adapters():
        assert torch.equal(whole.model(input_ids=ids).logits, alone)
    adapted = with_lora(tiny_policy())
    assert adapted.has_adapters and adapted.causal is not adapted.model
    assert not torch.equal(adapted.model(input_ids=ids).logits, alone)
    with adapted.without_adapters():
        assert torch.equal(adapted.model(input_ids=ids).logits, alone)
