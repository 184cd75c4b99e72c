"""Reply codes, as they come from peers."""

from __future__ import annotations

from amqp10.dialects.v0_9.codes import as_error, text_of
from amqp10.messaging import Error
from amqp10.types import Symbol


def test_a_code_that_nobody_knows() -> None:
    """It has a text all the same, and is kept with the error."""
    error = as_error(777, "odd")
    assert error.info == {Symbol("reply-code"): 777}
    assert error.description == "odd"
    assert text_of(error, 777) == "REPLY_777 - odd"
    assert text_of(Error(Symbol("x:y")), 777) == "REPLY_777"
