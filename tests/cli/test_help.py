"""What a person at a shell is offered: examples in `--help`, and words for the Tab key."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from amqp10 import BridgePlan, BridgeReport
from amqp10.cli._check import Checked
from amqp10.cli._main import COMMANDS, EXAMPLES, cli, run
from amqp10.cli._probe import Report

from ..kit.commands import Commands

pytestmark = pytest.mark.capability("command line")


@pytest.mark.parametrize("name", COMMANDS)
def test_examples(amqp10: Commands, name: str) -> None:
    """`--help` ends with examples, and each has the options that the command has."""
    shown = amqp10(name, "--help").out
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for example in EXAMPLES[name]:
        assert f"  {example}\n" in shown
        program, called, *arguments = shlex.split(example.partition(" <")[0].partition(" >")[0])
        assert (program, called) == ("amqp10", name)
        command.make_parser(click.Context(command)).parse_args(arguments)


@pytest.mark.parametrize(
    ("command", "kind", "more"),
    [
        ("check --json", Checked, []),
        ("probe --json", Report, []),
        ("bridge --json", BridgeReport, ["rate", "ended"]),
        ("bridge --json --dry-run", BridgePlan, []),
    ],
)
def test_fields_of_the_json(command: str, kind: Any, more: list[str]) -> None:
    """The page has the fields that a program may rely on, and no others."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", page, re.MULTILINE)
    assert re.findall("`(.*?)`", row) == [each.name for each in dataclasses.fields(kind)] + more


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("rec", "receive"), ("send --js", "--json-lines"), ("receive --format j", "json")],
    ids=["command", "option", "value"],
)
def test_completion(
    typed: str, offered: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Tab key completes commands, options and values."""
    monkeypatch.setenv("_AMQP10_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"amqp10 {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    with pytest.raises(SystemExit) as ended:
        run([])
    assert not ended.value.code
    assert f"plain,{offered}" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_for_the_shell(shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The line of the page prints what the shell has to read."""
    monkeypatch.setenv("_AMQP10_COMPLETE", f"{shell}_source")
    with pytest.raises(SystemExit):
        run([])
    assert f"_AMQP10_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_list_of_commands(amqp10: Commands) -> None:
    """The list has a whole sentence for each command, on one line of a terminal of 80 columns."""
    listed = amqp10("--help").out.partition("Commands:\n")[2].splitlines()
    assert [each.split()[0] for each in listed] == list(COMMANDS)
    assert all(each.endswith(".") and not each.endswith("...") for each in listed)


def test_a_misspelt_command(amqp10: Commands) -> None:
    """The error names the command that was meant; nothing is close to another word."""
    assert "No such command 'sned'. Did you mean 'send'?" in amqp10("sned").err
    assert "Did you mean" not in amqp10("xyz").err
