"""How the room of a node is dealt out among its producers, as credit; arithmetic only.

A full node grants nothing and takes back what it had granted, but it takes what is already on its way: nothing is
dropped. While there is room every producer has at least one credit, so that none starves behind an idle one;
so a limit is overshot at most by the number of producers and by what was in flight when credit was taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._faults import attempt

if TYPE_CHECKING:
    from ._node import Node, Producer


def share_out(node: Node, free: int, window: int) -> None:
    """Deal out `free` messages of room among the producers of a node, `window` at most to each.

    A producer is topped up when it is down to half of its share, so that a grant comes once for many messages.
    """
    producers = list(node.producers)
    if not producers:
        return
    if free <= 0:
        # Those without credit too: it may be for another node's sake, and they are producers of several.
        for producer in producers:
            _grant(node, producer, 0)
        return
    share = max(1, min(window, free // len(producers)))
    needy = [producer for producer in producers if producer.credit <= share // 2]
    held = sum(producer.credit for producer in producers)
    if held + sum(share - producer.credit for producer in needy) > free:
        for producer in producers:
            if producer.credit > share:
                _grant(node, producer, share)
    for producer in needy:
        _grant(node, producer, share)


def _grant(node: Node, producer: Producer, credit: int) -> None:
    attempt(f"a producer for {node.name!r}", producer.grant, node, credit)
