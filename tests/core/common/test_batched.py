"""Replies to many items meet the items that they answer."""

import pytest

from swarm_node.common.batched import paired, routed


def test_replies_come_in_the_order_of_the_items_whatever_route_they_took() -> None:
    calls: list[tuple[str, list[int]]] = []

    def asking(name: str):
        def ask(items: list[int]) -> list[str]:
            calls.append((name, items))
            return [f"{name} {item}" for item in items]

        return ask

    routes = {name: asking(name) for name in ("odd", "even", "none")}
    replies = routed([4, 1, 2, 3], lambda item: "odd" if item % 2 else "even", routes)
    assert replies == ["even 4", "odd 1", "even 2", "odd 3"]
    assert calls == [("odd", [1, 3]), ("even", [4, 2])]
    assert routed([], lambda item: "odd", routes) == [] and len(calls) == 2


def test_a_reply_too_few_or_too_many_is_an_error_and_shifts_no_other() -> None:
    for replies in ([], [1], [1, 2, 3]):
        with pytest.raises(ValueError):
            paired("ab", replies)
        with pytest.raises(ValueError):
            routed("ab", lambda item: True, {True: lambda items, found=replies: found})
