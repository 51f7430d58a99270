"""A bounded memory that forgets the least recently used entry.

`put` and `get` count as uses; `peek`, `in` and iteration do not. Without any `get` it forgets the oldest entry.
"""

from collections import OrderedDict
from collections.abc import Hashable, ItemsView, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lru(Generic[Key, Value]):
    """At most `size` entries. Not thread-safe: its owner holds a lock where it needs one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Key]:
        """The longest unused first."""
        return iter(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Value | None:
        """The value, which now counts as used. None if there is none."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def peek(self, key: Key) -> Value | None:
        """The value, without counting a use. None if there is none."""
        return self._entries.get(key)

    def items(self) -> ItemsView[Key, Value]:
        """The longest unused first."""
        return self._entries.items()

    def put(self, key: Key, value: Value) -> None:
        """Sets the value, which counts as used. If there is no room, the least recently used entry goes."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)
