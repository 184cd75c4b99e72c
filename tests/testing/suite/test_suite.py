"""Every dialect that is there keeps the contract, in both ends that are ours."""

from __future__ import annotations

import inspect

import pytest

from amqp10.engine import CAPABILITIES, dialect_names
from amqp10.testing.suite import DialectContract

for _name in dialect_names():
    _says = {"dialect": _name, "counts_releases": _name.startswith("0-9")}
    _class = type(f"TestDialect_{_name.replace('.', '_').replace('-', '_')}", (DialectContract,), _says)
    globals()[_class.__name__] = pytest.mark.anyio(_class)


def test_every_capability_has_a_test() -> None:
    """Whatever a dialect may list or not is tested, either way."""
    tests = "\n".join(inspect.getsource(base) for base in DialectContract.__mro__ if base is not object)
    elsewhere = {  # tools/dialects.py names their tests
        "annotations",
        "find-outcomes",
        "message-formats",
        "multi-frame",
        "terminus-capabilities",
        "token-nodes",
        "transactional-acquisition",
        "transactions-over-queues",
        "update-secret",
        "virtual-hosts",
    }
    for capability in CAPABILITIES.keys() - elsewhere:
        assert f'"{capability}"' in tests, capability
