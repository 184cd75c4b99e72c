"""The states of connections, sessions and links, and what calls get that come too early or too late."""

from __future__ import annotations

import anyio
import pytest

from amqp10.client._core.lifecycle import Lifecycle
from amqp10.client._core.states import LIFECYCLE, State, Step
from amqp10.errors import ConnectionLost, LinkDetached, LocalProtocolError

from ...kit.inside.client import fresh

# Each state with what follows from the steps of the table, which are the columns. "-": the step is illegal.
DRAWN = """
    state                ENTER    OPEN              LOSE                 CANCEL     CLOSE                END     RETRY
    NEW                  OPENING  -                 INTERRUPTED          -          -                    -       -
    OPENING              -        OPEN              INTERRUPTED          ABANDONED  CLOSING              ENDED   -
    OPEN                 -        OPEN              INTERRUPTED          ABANDONED  CLOSING              ENDED   -
    ABANDONED            -        -                 -                    -          CLOSING              CLOSED  -
    INTERRUPTED          -        OPEN              INTERRUPTED          -          CLOSING_INTERRUPTED  ENDED   -
    CLOSING              -        CLOSING           CLOSING_INTERRUPTED  -          CLOSING              CLOSED  -
    CLOSING_INTERRUPTED  -        CLOSING_RESTORED  CLOSING_INTERRUPTED  -          CLOSING_INTERRUPTED  CLOSED  -
    CLOSING_RESTORED     -        -                 CLOSING_INTERRUPTED  -          CLOSING              CLOSED  -
    ENDED                -        ENDED             -                    -          CLOSED               -       OPENING
    CLOSED               -        CLOSED            -                    -          CLOSED               -       CLOSING
"""
(_, *STEPS), *ROWS = [line.split() for line in DRAWN.strip().split("\n")]
FLAGS = {
    State.NEW: set(),
    State.OPENING: set(),
    State.OPEN: {"open", "established"},
    State.ABANDONED: {"closed"},
    State.INTERRUPTED: {"interrupted"},
    State.CLOSING: {"closed"},
    State.CLOSING_INTERRUPTED: {"closed", "interrupted"},
    State.CLOSING_RESTORED: {"closed", "established"},
    State.ENDED: {"over"},
    State.CLOSED: {"closed", "over"},
}


def flags(endpoint: Lifecycle) -> set[str]:
    """Return the derived flags that are set."""
    return {name for name in ("open", "established", "interrupted", "closed", "over") if getattr(endpoint, name)}


def entered() -> Lifecycle:
    endpoint = Lifecycle("link")
    endpoint.enter()
    return endpoint


def test_every_state_is_drawn() -> None:
    """The drawing has all states and all steps."""
    assert [row[0] for row in ROWS] == [state.name for state in State]
    assert [step.name for step in Step] == STEPS


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("step", Step)
def test_each_state_with_each_step(state: State, step: Step) -> None:
    """A step leads where the drawing says and sets the flags; an illegal one raises and changes nothing."""
    endpoint = Lifecycle("link")
    endpoint.state = state
    endpoint.entered(state)
    row = next(row for row in ROWS if row[0] == state.name)
    after = row[1:][STEPS.index(step.name)]
    if after == "-":
        with pytest.raises(LocalProtocolError, match=f"not possible in .* state {state.name}"):
            endpoint.advance(step)
        after = state.name
    else:
        endpoint.advance(step)
    assert endpoint.state is State[after]
    assert flags(endpoint) == FLAGS[endpoint.state]


def test_every_state_is_reached() -> None:
    """Each state can be reached from the first one, and from each the end."""
    reached = {State.NEW}
    for _ in State:
        reached |= {after for (before, _), after in LIFECYCLE.items() if before in reached}
    assert reached == set(State)
    ending = {State.ENDED, State.CLOSED}
    for _ in State:
        ending |= {before for (before, _), after in LIFECYCLE.items() if after in ending}
    assert ending == set(State)


@pytest.mark.parametrize("closed", [False, True])
def test_a_loss_after_the_end(closed: bool) -> None:
    """What has ended is not interrupted, and the first cause of the end stays."""
    endpoint = entered()
    if closed:
        endpoint.advance(Step.CLOSE)
    cause = LinkDetached("amqp:resource-deleted", "gone", {})
    endpoint.end_for_good(cause)
    endpoint.interrupt(ConnectionLost("later"))
    endpoint.end_for_good(None)
    assert flags(endpoint) == FLAGS[State.CLOSED if closed else State.ENDED]
    assert (endpoint.cause, endpoint.loss, endpoint.generation) == (cause, None, 0)


@pytest.mark.parametrize("first", ["close", "loss"])
def test_close_and_loss_together(first: str) -> None:
    """Whatever is first, the owner closes what was lost; restored, it is not open again but finishes its work."""
    endpoint = entered()
    endpoint.advance(Step.OPEN)
    for what in ("close", "loss") if first == "close" else ("loss", "close"):
        if what == "close":
            endpoint.advance(Step.CLOSE)
        else:
            endpoint.interrupt(ConnectionLost("broken"))
    assert endpoint.state is State.CLOSING_INTERRUPTED
    endpoint.advance(Step.OPEN)
    assert flags(endpoint) == {"closed", "established"}
    assert isinstance(endpoint.gone(), anyio.ClosedResourceError)


def test_cancelled_while_it_is_restored() -> None:
    """What its owner cancels while it is restored ends without being open in between."""
    endpoint = entered()
    endpoint.interrupt(ConnectionLost("broken"))
    endpoint.advance(Step.CLOSE)
    endpoint.end_for_good(None)
    assert endpoint.state is State.CLOSED
    endpoint.advance(Step.OPEN)  # the answer that was under way
    assert flags(endpoint) == {"closed", "over"}


def test_a_refused_attach_is_tried_again() -> None:
    """The link is as it was before its first attach, without the cause of the refusal."""
    endpoint = entered()
    endpoint.end_for_good(LinkDetached("amqp:link:redirect", "elsewhere", {}))
    endpoint.retry()
    assert (endpoint.state, endpoint.cause, flags(endpoint)) == (State.OPENING, None, set())


def test_not_yet_open() -> None:
    """Using what was not entered is a fault of this side's."""
    assert isinstance(Lifecycle("link").gone(), LocalProtocolError)


def test_entered_once() -> None:
    """The objects are not reusable."""
    endpoint = entered()
    with pytest.raises(LocalProtocolError, match="once"):
        endpoint.enter()


def test_the_peer_ended_it() -> None:
    """The cause has the peer's words, in a copy of its own for each who raises it."""
    endpoint = entered()
    cause = LinkDetached("amqp:resource-deleted", "gone", {"k": 1})
    endpoint.end_for_good(cause)
    first, second = endpoint.gone(), endpoint.gone()
    assert first is not second
    assert isinstance(first, LinkDetached)
    assert (first.condition, first.description, first.info) == ("amqp:resource-deleted", "gone", {"k": 1})


def test_closed_here_goes_first() -> None:
    """The side that closed it is told so, whatever arrives afterwards."""
    endpoint = entered()
    endpoint.advance(Step.CLOSE)
    endpoint.end_for_good(ConnectionLost("later"))
    assert isinstance(endpoint.gone(), anyio.ClosedResourceError)


def test_fresh_keeps_the_reason() -> None:
    """The copy of a cause still names what caused it."""
    cause = ConnectionLost("broken")
    cause.__cause__ = OSError("reset")
    copy = fresh(cause)
    assert str(copy) == "broken"
    assert copy.__cause__ is cause.__cause__


@pytest.mark.anyio
async def test_until_wakes_every_waiter() -> None:
    """`changed` lets all who wait look again."""
    endpoint = entered()
    seen = []

    async def wait(number: int) -> None:
        await endpoint.until(lambda: endpoint.over)
        seen.append(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 1)
        tasks.start_soon(wait, 2)
        await anyio.wait_all_tasks_blocked()
        endpoint.changed()
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        endpoint.end_for_good(None)
    assert sorted(seen) == [1, 2]
