"""The page about privacy names all that a message can hold, and no more."""

from pathlib import Path

from pydantic import BaseModel

from protocol.messages import Announcement, Hello, RolloutGroup

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "what_leaves.md"
# A field of a message, and how the page says what a reader shows to others by it
FIELDS = {
    "addresses": "Your IP address and port",
    "author": "Your node's public key",
    "episodes": "Completions of your model",
    "groups": "which groups are new",
    "held": "Which groups of other nodes you hold",
    "question": "The address of each question",
    "round": "the number of its round",
    "seq": "a counter of its announcements",
    "swarm": "The name of your swarm",
    "versions": "the versions of the protocol that you speak",
}
QUESTION = {
    "config_id": "the names of the task",
    "dataset": "the names of the task",
    "digest": "A digest of what the environment does",
    "environment": "the name of the environment",
    "index": "a number",
    "seed": "a seed",
    "version": "its version",
}


def fields(*messages: type[BaseModel]) -> set[str]:
    return {name for message in messages for name in message.model_fields}


def test_every_field_of_a_message_is_named_on_the_page_about_privacy() -> None:
    assert fields(RolloutGroup, Announcement, Hello) == FIELDS.keys()
    question = RolloutGroup.model_fields["question"].annotation
    assert question is not None
    assert fields(question) == QUESTION.keys()
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [words for words in {*FIELDS.values(), *QUESTION.values()} if words not in text] == []
