"""A test that writes into the repository is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from .left_files import LeftFiles


def test_new_files(tmp_path: Path) -> None:
    """What is new is told once, unless git ignores it; what was there before is not."""
    (tmp_path / ".gitignore").write_text(".coverage*\n/site/\n")
    (tmp_path / "before").touch()
    left = LeftFiles(tmp_path)
    assert left.new() == []
    for name in ("text", "another", ".coverage.1"):
        (tmp_path / name).touch()
    (tmp_path / "site").mkdir()
    assert left.new() == ["another", "text"]
    assert left.new() == []
    (tmp_path / "text").unlink()
    assert left.new() == []
    (tmp_path / "text").touch()
    assert left.new() == ["text"]


def test_the_test_fails(tmp_path: Path) -> None:
    """The test after which something new is there fails; one that cleans up does not."""
    left = LeftFiles(tmp_path)

    def tear_down(*, leaving: bool) -> None:
        hook = left.pytest_runtest_teardown()
        next(hook)
        if leaving:
            (tmp_path / "text").touch()
        with pytest.raises(StopIteration):
            next(hook)

    tear_down(leaving=False)
    with pytest.raises(pytest.fail.Exception, match="has left text in"):
        tear_down(leaving=True)


def test_the_repository_is_watched(request: pytest.FixtureRequest) -> None:
    """Each process that runs tests watches the top of the repository."""
    assert any(isinstance(each, LeftFiles) for each in request.config.pluginmanager.get_plugins())
