"""However a model lays out its answers to a puzzle, they are read as meant."""

import pytest

from swarm_node.extensions.temporal_clue.scoring import score

KEY = {"A": "Mr. Green", "B": "Lead Pipe", "C": "Dining Room", "D": "11:30 PM"}
OPTIONS = [*KEY.values(), "Mrs. Peacock", "Knife", "Hall", "12:00 AM"]


@pytest.mark.parametrize(
    "text",
    [
        "A. Mr. Green\nB. Lead Pipe\nC. Dining Room\nD. 11:30 PM",
        "A. Mr. Green, B. Lead Pipe, C. Dining Room, D. 11:30 PM",
        "A. Mr. Green B. Lead Pipe C. Dining Room D. 11:30 PM",
        "A. Mr. Green; B. Lead Pipe; C. Dining Room; D. 11:30 PM.",
        "\tA. Mr. Green\n\tB.\tLead Pipe\n\tC. Dining Room\n\tD. 11:30 PM",
        "          A. Mr. Green\n          B. Lead Pipe\n          C. Dining Room\n          D. 11:30 PM",
        "**A.** Mr. Green, **B.** Lead Pipe, **C.** Dining Room, **D.** 11:30 PM",
        "A) Mr. Green | B) Lead Pipe | C) Dining Room | D) 23:30",
        "A: Knife\nA: Mr. Green, B: Lead Pipe\nC: Dining Room, D: 11:30 PM",
    ],
)
def test_right_answers_are_right_on_one_line_or_on_many(text):
    assert score(text, KEY, OPTIONS) == 1.0


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("A. Mr. Green, B. Knife, C. Hall, D. 12:00 AM", 0.25),
        ("A. Mr. Green, A. Mrs. Peacock", 0.0),  # several names are none
        ("A. Mr. Green or Mrs. Peacock, B. Lead Pipe", 0.25),
        ("D. 11:30 PM, A. Mr. Green", 0.0),  # not in their order: part of the answer before
        ("Vitamin A. Mr. Green", 0.0),
        ("", 0.0),
    ],
)
def test_what_is_not_meant_scores_nothing(text, share):
    assert score(text, KEY, OPTIONS) == share


def test_a_text_made_to_be_slow_is_read_in_no_time():
    for text in ("A. " * 5000, "A." + " " * 16000, "(" * 16000, ", " * 8000 + "B. x"):
        assert score(text, KEY, OPTIONS) == 0.0
