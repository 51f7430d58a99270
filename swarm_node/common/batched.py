"""Functions that take many items in one call, because a call is dear: a pass of a model, a message
to the scoring process. Their replies come in the order of the items. Here a reply meets its item
again, so that no caller keeps two lists in step.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Reply = TypeVar("Reply")
Route = TypeVar("Route")
Ask = Callable[[list[Item]], Sequence[Reply]]


def paired(items: Iterable[Item], replies: Iterable[Reply]) -> list[tuple[Item, Reply]]:
    """Each item with its reply. Raises ValueError where there are more of one than of the other."""
    return list(zip(items, replies, strict=True))


def routed(
    items: Sequence[Item],
    route_of: Callable[[Item], Route],
    routes: Mapping[Route, Ask[Item, Reply]],
) -> list[Reply]:
    """The replies to all items, in their order. Items of one route are asked in one call, and the
    calls are made in the order of `routes`. A route that no item takes is not called.
    """
    routed_items = [(route_of(item), item) for item in items]
    replies: dict[Route, list[Reply]] = {}
    for route, ask in routes.items():
        asked = [item for taken, item in routed_items if taken == route]
        if asked:
            # The last reply first, so that the next one can be popped
            replies[route] = [reply for _, reply in reversed(paired(asked, ask(asked)))]
    return [replies[route].pop() for route, _ in routed_items]
