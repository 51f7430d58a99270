"""Every vector of protocol/vectors, through this implementation."""

import pytest

from lab.vectors.__main__ import files
from lab.vectors.forms import FOLDER, load
from lab.vectors.reading import FRAMES, READERS, as_told

VECTORS = list(load())


@pytest.mark.parametrize("kind", [*READERS, *FRAMES])
def test_each_vector_is_read_as_it_says(kind: str) -> None:
    of_kind = [
        (file, group, test, data) for file, group, test, data in VECTORS if group["type"] == kind
    ]
    wrong = [
        (file, test) for file, group, test, data in of_kind if not as_told(data, {**group, **test})
    ]
    assert of_kind and not wrong


def test_there_is_a_reader_for_every_type() -> None:
    assert {group["type"] for _, group, _, _ in VECTORS} == {*READERS, *FRAMES}


def test_the_files_are_made_from_the_page_byte_for_byte() -> None:
    assert {file.name: file.read_bytes() for file in FOLDER.glob("*.json")} == files()
