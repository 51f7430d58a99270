"""What must not leave this machine is not in a text for strangers."""

import pytest

from swarm_node.common.redaction import redacted

PEER = "12D3KooWSKqQ747J17nJN4uLA1GEtfPcKkCw12STvnZRBWHap3Se"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"none of --peers answers (/ip4/203.0.113.7/tcp/31330/p2p/{PEER}: refused)", "203.0.113.7"),
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
