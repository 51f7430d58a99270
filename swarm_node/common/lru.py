"""A bounded mapping that drops the entry that was unused for longest."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Lru(OrderedDict[Key, Value]):
    """At most `size` entries, the longest unused first. Setting an entry and `use` count as uses,
    reading does not.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)

    def use(self, key: Key) -> Value | None:
        """The value of this key, which now counts as used. None for a key without a value."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)
