"""The contract of dialects as tests: what each must do, and which capabilities it may lack if it does not list them.

    import pytest
    from amqp10.testing.suite import DialectContract

    @pytest.mark.anyio
    class TestMine(DialectContract):
        dialect = "mine"        # known by `amqp10.engine.register_dialect("mine", "my_package:DIALECT")`

Most tests are coroutines, run by anyio's pytest plugin. They use `Connection` against the embedded broker, and so test
both ends of the dialect; override `server` to run them against another server. For a capability that the dialect does
not list, the test checks that requesting it raises `Unsupported` before a byte is written. `Octets` gives both engines
invalid input. The suite needs pytest.
"""

from ._attributes import Attributes as Attributes
from ._basics import Basics as Basics
from ._contract import Contract as Contract
from ._contract import Deviation as Deviation
from ._links import Links as Links
from ._losses import Losses as Losses
from ._octets import Octets as Octets
from ._outcomes import Outcomes as Outcomes
from ._streams import Streams as Streams
from ._work import Work as Work


class DialectContract(Attributes, Basics, Outcomes, Links, Streams, Work, Losses, Octets):
    """All tests of the contract."""


__all__ = (
    "Attributes",
    "Basics",
    "Contract",
    "Deviation",
    "DialectContract",
    "Links",
    "Losses",
    "Octets",
    "Outcomes",
    "Streams",
    "Work",
)
