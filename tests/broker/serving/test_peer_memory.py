"""What has arrived and no link has yet counts for all connections, and for those of the user."""

from __future__ import annotations

import pytest

from amqp10.broker import BrokerLimits

from ...kit.inside.broker import Admission, PeerMemory

LIMIT = 1_000_000


class Rig:
    """The memory of a broker, or of a user, limited to `LIMIT`."""

    def __init__(self, limits: BrokerLimits) -> None:
        self.asked = 0
        self.admission = Admission(limits, self._ask)

    def _ask(self) -> None:
        self.asked += 1

    def connection(self, user: str | None = None) -> PeerMemory:
        """A connection of this user."""
        return PeerMemory(self.admission, self.admission.account_of(user))

    def texts(self) -> list[str]:
        """What is logged when the broker acts on it, as it was asked to."""
        asked, self.asked = self.asked, 0
        texts = self.admission.regulate()
        assert bool(asked) == bool(texts)
        return texts


def test_much_waits_on_all_connections_together() -> None:
    """From a quarter of the memory on each may add little; with a fifth less, as much as usual again."""
    rig = Rig(BrokerLimits(memory=LIMIT))
    peers = [rig.connection(), rig.connection("ann"), rig.connection("bob")]
    for peer in peers:
        peer.count_waiting(80_000)
    assert (rig.texts(), peers[0].crowded) == ([], False)
    peers[1].count_waiting(20_000)
    (text,) = rig.texts()
    assert text == (
        "messages that wait for credit take 260000 octets of memory: each connection is read until 1 MiB of them waits"
    )
    assert all(peer.crowded for peer in peers)
    peers[2].count_waiting(-59_999)
    assert rig.texts() == []
    peers[2].count_waiting(-1)
    (text,) = rig.texts()
    assert text == "messages that wait for credit take less memory: connections are read further ahead again"
    assert not any(peer.crowded for peer in peers)


def test_much_of_one_user_waits() -> None:
    """That is no concern of the others."""
    rig = Rig(BrokerLimits(memory_by_user=LIMIT))
    bad, other = rig.connection("bad"), rig.connection("good")
    rig.connection("bad").count_waiting(250_000)
    bad.count_waiting(1)
    (text,) = rig.texts()
    assert text.startswith("messages of user 'bad' that wait for credit take 250001 octets of memory")
    assert (bad.crowded, other.crowded) == (True, False)


@pytest.mark.parametrize(
    ("limits", "user"), [(BrokerLimits(memory=LIMIT), None), (BrokerLimits(memory_by_user=LIMIT), "ann")]
)
def test_messages_in_part_beside_those_that_wait(limits: BrokerLimits, user: str | None) -> None:
    """Both together have the room that messages in part have; the only connection may have more."""
    rig = Rig(limits)
    waiting, peer = rig.connection(user), rig.connection(user)
    assert peer.count_partial(2_000_000)
    waiting.count_waiting(1_000_000)
    assert not peer.count_partial(1)
    peer.end()
    assert peer.count_partial(240_000)
    assert not peer.count_partial(20_000)
    assert peer.count_partial(-20_000)


def test_a_connection_that_is_over_counts_no_more() -> None:
    """Nor does what it had for its user."""
    rig = Rig(BrokerLimits(memory=LIMIT, memory_by_user=LIMIT // 2))
    peer = rig.connection("ann")
    peer.count_waiting(300_000)
    peer.count_partial(300_000)
    assert (len(rig.texts()), peer.crowded) == (2, True)
    peer.end()
    assert (len(rig.texts()), rig.connection("ann").crowded) == (2, False)
    account = rig.admission.account_of("ann")
    assert account is not None
    assert (rig.admission.memory.all_octets, account.memory.all_octets) == (0, 0)
