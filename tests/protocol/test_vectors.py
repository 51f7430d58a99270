"""Every vector of protocol/vectors, through this implementation."""

import pytest

from lab.vectors.__main__ import files
from lab.vectors.forms import FOLDER, load
from lab.vectors.reading import READERS, read
from protocol.rejection import Reason, Rejected

VECTORS = list(load())


@pytest.mark.parametrize("kind", READERS)
def test_each_vector_is_read_as_it_says(kind: str) -> None:
    wrong = []
    for file, group, test, data in VECTORS:
        if group["type"] == kind:
            found = read(data, {**group, **test})
            if isinstance(found, Rejected):
                right = test["result"] == "invalid" and found.reason in test["reasons"]
            else:
                right = test["result"] == "valid" and found == test.get("output", found)
            if not right:
                wrong.append((file, test["tcId"], test["comment"], test["result"], test.get("reasons"), found))
    assert not wrong
    assert any(group["type"] == kind for _, group, _, _ in VECTORS)
