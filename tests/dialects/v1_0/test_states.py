"""The state tables against the specification's, pair by pair, and two ends of each machine against each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Any

import pytest

from amqp10.dialects.v1_0.connection import ConnectionEndpoint
from amqp10.dialects.v1_0.endpoints.receiver import ReceiverEndpoint
from amqp10.dialects.v1_0.endpoints.sender import SenderEndpoint
from amqp10.dialects.v1_0.link import LinkEndpoint, SessionFault
from amqp10.dialects.v1_0.session import SessionEndpoint
from amqp10.dialects.v1_0.states import CONNECTION, LINK, SESSION, ConnectionState, LinkState, SessionState, Step
from amqp10.engine import ConnectionTerms, dialect
from amqp10.errors import LocalProtocolError, RemoteProtocolError

from ...kit.inside.package import RECEIVED, SENT

# §2.4.6 and §2.5.5 as the specification draws them; §2.6.3 to §2.6.6 in words, of which this is the drawing.
SPEC_CONNECTION = """
    START      R:HDR HDR_RCVD     S:HDR HDR_SENT
    HDR_RCVD   S:HDR HDR_EXCH
    HDR_SENT   R:HDR HDR_EXCH     S:OPEN OPEN_PIPE
    HDR_EXCH   R:OPEN OPEN_RCVD   S:OPEN OPEN_SENT
    OPEN_PIPE  R:HDR OPEN_SENT    S:CLOSE OC_PIPE
    OC_PIPE    R:HDR CLOSE_PIPE
    OPEN_RCVD  S:OPEN OPENED
    OPEN_SENT  R:OPEN OPENED      S:CLOSE CLOSE_PIPE
    CLOSE_PIPE R:OPEN CLOSE_SENT
    OPENED     R:CLOSE CLOSE_RCVD S:CLOSE CLOSE_SENT S:CLOSE(error) DISCARDING
    CLOSE_RCVD S:CLOSE END
    CLOSE_SENT R:CLOSE END
    DISCARDING R:CLOSE END
    END
"""
SPEC_SESSION = """
    UNMAPPED   S:BEGIN BEGIN_SENT R:BEGIN BEGIN_RCVD
    BEGIN_SENT R:BEGIN MAPPED
    BEGIN_RCVD S:BEGIN MAPPED
    MAPPED     S:END END_SENT     R:END END_RCVD     S:END(error) DISCARDING
    END_SENT   R:END UNMAPPED
    END_RCVD   S:END UNMAPPED
    DISCARDING R:END UNMAPPED
"""
SPEC_LINK = """
    DETACHED    S:ATTACH ATTACH_SENT R:ATTACH ATTACH_RCVD
    ATTACH_SENT R:ATTACH ATTACHED    S:DETACH DETACH_PIPE
    ATTACH_RCVD S:ATTACH ATTACHED    R:DETACH DETACH_OWED
    ATTACHED    S:DETACH DETACH_SENT R:DETACH DETACH_RCVD
    DETACH_PIPE R:ATTACH DETACH_SENT
    DETACH_OWED S:ATTACH DETACH_RCVD
    DETACH_SENT R:DETACH ENDED
    DETACH_RCVD S:DETACH ENDED
    ENDED
"""


# Where each comes to rest. A session or link that begins anew is another one; a session's state has no name for that.
RESTS: dict[type[Enum], Enum] = {
    ConnectionState: ConnectionState.END,
    SessionState: SessionState.UNMAPPED,
    LinkState: LinkState.ENDED,
}


# What the specification's tables do not have: how an endpoint ends with what is above it, or for its owner.
BEYOND = {"CLOSING", "OVER"}


def step_of(word: str) -> Step:
    """Return the step that a drawing writes so: `S:OPEN`, `R:HDR`, `S:CLOSE(error)`."""
    way, what = word.replace("HDR", "HEADER").replace("(error)", "_WITH_ERROR").split(":")
    return Step[{"S": "SEND_", "R": "RECEIVE_"}[way] + what]


def drawn(text: str, states: type[Enum]) -> dict[tuple[Any, Step], Any]:
    """A drawing as a table."""
    table = {}
    for line in text.split("\n"):
        state, *rest = line.split() or [""]
        for step, after in zip(rest[::2], rest[1::2], strict=True):
            table[states[state], step_of(step)] = states[after]
    return table


MACHINES = [
    pytest.param(CONNECTION, ConnectionState, SPEC_CONNECTION, id="connection"),
    pytest.param(SESSION, SessionState, SPEC_SESSION, id="session"),
    pytest.param(LINK, LinkState, SPEC_LINK, id="link"),
]


@pytest.mark.spec("2.4.6", "the state diagram of connections")
@pytest.mark.spec("2.5.5", "the state diagram of sessions")
@pytest.mark.parametrize(("table", "states", "spec"), MACHINES)
def test_table_is_the_specification(table: Mapping[Any, Any], states: type[Enum], spec: str) -> None:
    """Each entry of the specification is in the table, and no other."""
    assert table == drawn(spec, states)
    assert {state.name for state in states} - BEYOND == {word for word in spec.split() if ":" not in word}


@pytest.mark.parametrize(("table", "states", "spec"), MACHINES)
def test_every_state_lives(table: Mapping[Any, Any], states: type[Enum], spec: str) -> None:
    """Every state can be reached from the first one, and from every state the machine can come to rest."""
    first = next(iter(states))
    rest = RESTS[states]

    def reach(start: Any) -> set[Any]:
        seen, queue = {start}, [start]
        while queue:
            state = queue.pop()
            for (source, _), after in table.items():
                if source is state and after not in seen:
                    seen.add(after)
                    queue.append(after)
        return seen

    named = {state for state in states if state.name not in BEYOND}
    assert reach(first) == named
    assert all(rest in reach(state) for state in named)


@pytest.mark.parametrize(("table", "states", "spec"), MACHINES)
def test_two_ends_agree(table: Mapping[Any, Any], states: type[Enum], spec: str) -> None:
    """Whatever two ends send by the table, in whatever order it crosses: each can take it, and both come to rest.

    Every reachable pair of states with everything that can be on the way between them is visited. What arrives must
    be legal at once, or as soon as the taker has sent what it owes (a header for a header).
    """
    first = next(iter(states))
    rest = RESTS[states]
    fresh, over = (first, False), (rest, True)
    start = (fresh, fresh, (), ())
    seen: set[Hashable] = {start}
    queue: deque[tuple[Any, Any, tuple[str, ...], tuple[str, ...]]] = deque([start])
    ends = 0
    while queue:
        config = queue.popleft()
        followers = []
        for turned in (False, True):
            mine, theirs, out, back = turn(config) if turned else config
            state, begun = mine
            steps = [
                ((after, True), theirs, (*out, step.what.removesuffix(" with an error")), back)
                for (before, step), after in table.items()
                if before is state and step.way == SENT and not (begun and state is rest)  # one life each
            ]
            if back:
                after = table.get((state, Step["RECEIVE_" + back[0].upper()]))
                assert after is not None or steps, f"{state} cannot take {back[0]}, nor send to make it legal"
                if after is not None:
                    steps.append(((after, True), theirs, out, back[1:]))
            followers += [turn(each) if turned else each for each in steps]
        if not followers:
            assert config == (over, over, (), ())
            ends += 1
        for follower in followers:
            if follower not in seen:
                seen.add(follower)
                queue.append(follower)
    assert ends == 1


def turn(config: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """The same, seen from the other end."""
    here, there, out, back = config
    return there, here, back, out


@pytest.mark.parametrize("kind", [SessionEndpoint, LinkEndpoint])
def test_everything_ends(kind: type[SessionEndpoint | LinkEndpoint]) -> None:
    """An endpoint ends for its owner from any state, once; after that, only the peer's end changes nothing."""
    over = SessionState.OVER if kind is SessionEndpoint else LinkState.OVER
    ends = Step.FINISH if kind is SessionEndpoint else Step.END_LINK
    late = Step.RECEIVE_END if kind is SessionEndpoint else Step.RECEIVE_DETACH
    table: Mapping[tuple[Any, Any], Any] = kind.transitions
    assert {before for before, step in table if step is ends} == set(type(over)) - {over}
    assert {after for (_, step), after in table.items() if step is ends} == {over}
    assert {step: after for (before, step), after in table.items() if before is over} == {late: over}


# The endpoints obey the tables: every entry and every missing pair of each


def connection_endpoint() -> ConnectionEndpoint:
    engine: Any = dialect("1.0").client(ConnectionTerms("tested"), None, True)
    found: ConnectionEndpoint = engine.connection
    return found


def pairs(states: type[Enum], table: Mapping[tuple[Any, Step], Any]) -> list[Any]:
    """Every state with every step that the machine knows in any state."""
    steps = sorted({step for _, step in table}, key=lambda step: step.name)
    return [pytest.param(state, step, id=f"{state.name} {step.name}") for state in states for step in steps]


@pytest.mark.spec("2.4.6", "every entry of the state table and every missing pair")
@pytest.mark.parametrize(("state", "step"), pairs(ConnectionState, CONNECTION))
def test_connection_step(state: ConnectionState, step: Step) -> None:
    """A connection moves as the table says; without an entry nothing moves, and whoever sent it is to blame."""
    endpoint = connection_endpoint()
    endpoint.state = state
    after = CONNECTION.get((state, step))
    if after is not None:
        endpoint.advance(step)
        assert endpoint.state is after
        return
    with pytest.raises(RemoteProtocolError if step.way == RECEIVED else LocalProtocolError, match=state.name) as caught:
        endpoint.advance(step)
    assert endpoint.state is state
    if isinstance(caught.value, RemoteProtocolError):
        assert caught.value.condition == "amqp:illegal-state"


@pytest.mark.spec("2.5.5", "every entry of the state table and every missing pair")
@pytest.mark.parametrize(("state", "step"), pairs(SessionState, SessionEndpoint.transitions))
def test_session_step(state: SessionState, step: Step) -> None:
    """A session moves as the table says; without an entry nothing moves, and whoever sent it is to blame."""
    endpoint = SessionEndpoint(connection_endpoint(), 0)
    endpoint.state = state
    after = SessionEndpoint.transitions.get((state, step))
    if after is not None:
        endpoint.advance(step)
        assert endpoint.state is after
        return
    with pytest.raises(RemoteProtocolError if step.way == RECEIVED else LocalProtocolError, match=state.name) as caught:
        endpoint.advance(step)
    assert endpoint.state is state
    if isinstance(caught.value, RemoteProtocolError):
        assert caught.value.condition == "amqp:illegal-state"


@pytest.mark.spec("2.6.3", "every entry of the state table and every missing pair")
@pytest.mark.parametrize("kind", [SenderEndpoint, ReceiverEndpoint])
@pytest.mark.parametrize(("state", "step"), pairs(LinkState, LinkEndpoint.transitions))
def test_link_step(state: LinkState, step: Step, kind: type[LinkEndpoint]) -> None:
    """A link moves as the table says at either end; a step of the peer's without an entry costs it the session."""
    endpoint = kind(SessionEndpoint(connection_endpoint(), 0), "link")
    endpoint.state = state
    after = LinkEndpoint.transitions.get((state, step))
    if after is not None:
        endpoint.advance(step)
        assert endpoint.state is after
        return
    with pytest.raises(SessionFault if step.way == RECEIVED else LocalProtocolError, match=state.name) as caught:
        endpoint.advance(step)
    assert endpoint.state is state
    if isinstance(caught.value, SessionFault):
        assert caught.value.condition == "amqp:illegal-state"
