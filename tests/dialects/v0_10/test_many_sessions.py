"""What is done on one session costs no more if the connection has many others."""

from __future__ import annotations

from amqp10.engine import DeclareQueue, SessionTerms
from amqp10.messaging import Message

from ...kit.dialects.v0_10.pair import pair
from ...kit.steps import steps


def test_a_request_and_a_message_cost_the_same() -> None:
    """A declaration, and a message with its outcome, beside four times as many sessions."""

    def cost(sessions: int) -> int:
        client, _, line = pair()
        line.run()
        for _ in range(sessions):
            client.engine.begin(SessionTerms())
        session = client.begin()
        link = client.sender()
        line.run()

        def use() -> None:
            session.request(DeclareQueue("r"))
            delivery = link.send(Message("m").encode())
            line.run()
            assert delivery.remote_settled

        use()
        return steps(use)

    assert cost(200) < 1.1 * cost(50)
