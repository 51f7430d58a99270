"""Places for readers are drawn by a seed, so that nobody chooses them."""

from tests.house.drawn import PLACES, draw, of_docstrings, of_documents, of_messages, runs

PAGE = """# A page

One is here. Two has `code`. Three ends.
Four is the last.

```bash
This is code. It is no sentence. None of it counts.
```

| A table. It has cells. They do not count. |

- First point. It goes
  further. It ends.
- Second point.
"""


def test_a_place_is_three_sentences_of_one_paragraph_or_list_item() -> None:
    assert runs(PAGE) == [
        "One is here. Two has `code`. Three ends.",
        "Two has `code`. Three ends. Four is the last.",
        "- First point. It goes further. It ends.",
    ]


def test_a_bold_sentence_keeps_both_of_its_marks() -> None:
    assert runs("**It is bold.** It is not. Neither is this.") == [
        "**It is bold.** It is not. Neither is this."
    ]


def test_a_seed_draws_the_same_places_each_of_another_file() -> None:
    for places in (of_documents(), of_docstrings(), of_messages()):
        drawn = draw(66, places)
        assert drawn == draw(66, places)
        assert len({file for file, _ in drawn}) == PLACES
        assert drawn != draw(67, places)
