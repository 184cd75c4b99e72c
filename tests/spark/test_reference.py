"""The reference page says what the code does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

TOOL = Path(__file__).parent.parent.parent / "tools" / "spark.py"


def test_the_page_is_made_from_the_code() -> None:
    """`python tools/spark.py` would write it as it is."""
    spec = importlib.util.spec_from_file_location("tools_spark", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text() == tool.page()
