"""Branches of distributed transactions, prepared."""

from __future__ import annotations

from ..inside.broker import Work

BRANCH = (1, b"global", b"branch")


class Prepared:
    """What a transaction has come to, with the promises of one that is prepared."""

    obstacle = None

    def __init__(self, work: Work) -> None:
        self.work = work
        self.coordinator = self

    def let_go(self, transaction: object) -> None:
        """Nobody has it but this."""
