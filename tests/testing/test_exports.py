from __future__ import annotations

import subprocess
import sys

import pytest

import amqp10.testing
import amqp10.testing.strategies


@pytest.mark.parametrize("name", amqp10.testing.__all__)
def test_names(name: str) -> None:
    """Every public name is there, under its own name."""
    assert getattr(amqp10.testing, name).__name__ == name


@pytest.mark.parametrize("name", amqp10.testing.strategies.__all__)
def test_strategies(name: str) -> None:
    """Every public name of the strategies is there."""
    assert hasattr(amqp10.testing.strategies, name)


@pytest.mark.slow
def test_without_hypothesis() -> None:
    """The kit needs no hypothesis; the strategies say that they do."""
    program = """
import sys
sys.modules["hypothesis"] = None
import amqp10.testing
amqp10.testing.ScriptedPeer, amqp10.testing.EnginePair
try:
    import amqp10.testing.strategies
except ImportError as error:
    assert "pip install hypothesis" in str(error), error
else:
    raise SystemExit("imported")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
