"""Texts for strangers hold no secrets, addresses, identities or names of folders."""

import base64

import pytest

from swarm_node.common.redaction import hidden, redacted, without_secrets

PEER = "12D3KooWSKqQ747J17nJN4uLA1GEtfPcKkCw12STvnZRBWHap3Se"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (
            f"none of --peers answers (/ip4/203.0.113.7/tcp/31330/p2p/{PEER}: refused)",
            "203.0.113.7",
        ),
        (f"node {PEER} in home", PEER),
        ("cannot reach 192.168.1.20:31330", "192.168.1.20"),
        ("listens on [2001:db8::17]:31330", "2001:db8"),
        ("cannot write /home/ann/secret project/events.jsonl", "/ann"),
        ("home ~/.swarm-node/x is full", "~/"),
        ("token hf_abcdefghijklmnop", "hf_abc"),
        ("password=hunter2 is wrong", "hunter2"),
        ("vllm at http://ann:pw@10.0.0.8:8000/v1", "10.0.0.8"),
        ("mail ann@example.org", "ann@"),
        ("-----BEGIN PRIVATE KEY-----\nMIIx\n-----END PRIVATE KEY-----", "MIIx"),
    ],
)
def test_it_hides(text, hidden):
    assert hidden not in redacted(text)


@pytest.mark.parametrize(
    "text", ["round 12 took 0.35 s at 12:30:01", "reward 0.25, 3/8 groups", "torch 2.13.0, 2 cores"]
)
def test_it_leaves_figures(text):
    assert redacted(text) == text


KEY = "sk-proj-Abc123Def456"


@pytest.mark.parametrize(
    "text",
    [
        "wrong key sk-proj-Abc123Def456", "wrong key sk-pr***456", "ends in f456",
        "Basic " + base64.b64encode(f"ann:{KEY}".encode()).decode(),
        "key=" + base64.b64encode(KEY.encode()).decode(),
    ],
)  # fmt: skip
def test_a_key_is_hidden_whole_in_part_and_packed(text):
    shown = without_secrets(text, [KEY])
    assert "***" in shown and not any(KEY[k : k + 4] in shown for k in range(len(KEY) - 3)), shown
    assert base64.b64encode(KEY.encode()).decode()[:12] not in shown


def test_what_has_nothing_of_a_key_stays():
    assert (
        without_secrets("model qwen3:4b is not loaded", [KEY, "", "is"])
        == "model qwen3:4b is not loaded"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://ann:pw@host:80/v1: refused", "at http://***@host:80/v1: refused"),
        ("at http://ann:p@w/x@host", "at http://***@host"),
        (
            "config file http:/ann:pw@host does not exist",
            "config file http:/***@host does not exist",
        ),
        ('["http://ann:pw@a","https://b/c"]', '["http://***@a","https://b/c"]'),
        ("mail ann@example.org to https://host/", "mail ann@example.org to https://host/"),
        ("cannot read /home/ann/file", "cannot read /home/ann/file"),
        ("token hf_swordfish1 is wrong", "token *** is wrong"),
        ("no proxy at 10.0.0.1 for bob:hunter22", "no proxy at 10.0.0.1 for ***"),
    ],
)
def test_logins_and_secrets_of_the_environment_are_hidden(text, shown):
    known = {
        "HF_TOKEN": "hf_swordfish1",
        "HTTPS_PROXY": "http://bob:hunter22@10.0.0.1",
        "SSH_KEY_FILE": "/home/ann/file",
    }
    assert hidden(text, known) == shown


def test_a_text_of_addresses_without_end_takes_no_time_to_speak_of():
    text = "://a" * 500_000
    assert hidden(text, {}) == text and hidden(text + "@", {}) == "://***@"
