"""What a person at a shell is offered: examples in `--help`, and words for the Tab key."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest

from amqp10 import BridgePlan, BridgeReport, PlannedEnd
from amqp10.cli._check import Checked
from amqp10.cli._main import COMMANDS, EXAMPLES, cli, run
from amqp10.cli._probe import Report

from ..kit.inside.package import Guarantee
from ..kit.processes.commands import Commands

GONE = "amqp://127.0.0.1:1"
"""A URL at which nobody listens."""

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


def documented(command: str) -> dict[str, str]:
    """Return the types of the fields of an object, as the page has them."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    _, _, after = page.partition(f"\n`{command}`")
    table = after[after.index("|---") :].split("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE)
    return {name: kind for names, kind in rows for name in re.findall("`(.*?)`", names)}


WORDS: dict[Any, str] = {
    bool: "boolean",
    dict[str, Any]: "object",
    dict[str, str]: "object of texts",
    float: "number",
    int: "integer",
    int | None: "integer or null",
    list[str]: "list of texts",
    str: "text",
    str | None: "text or null",
    PlannedEnd: "object",
    Guarantee: "text",
}
"""The words of the page for the types of fields."""

OBJECTS: dict[str, tuple[Any, dict[str, str]]] = {
    "check --json": (Checked, {}),
    "probe --json": (Report, {}),
    "bridge --json": (BridgeReport, {"rate": "number", "ended": "text or null"}),
    "bridge --json --dry-run": (BridgePlan, {}),
}
"""For each command with such an option, the class of what it writes, and fields besides."""


@pytest.mark.parametrize("command", OBJECTS)
def test_fields_of_the_json(command: str) -> None:
    """The page has the fields that a program may rely on, with their types, and no others."""
    kind, more = OBJECTS[command]
    hints = get_type_hints(kind, vars(sys.modules[kind.__module__]) | {"Guarantee": Guarantee})
    assert documented(command) == {each.name: WORDS[hints[each.name]] for each in dataclasses.fields(kind)} | more


def fits(value: Any, words: str) -> bool:
    """Return whether a value of JSON is of the type that the page says."""
    match words.removesuffix(" or null"):
        case _ if value is None:
            return words.endswith(" or null")
        case "text":
            return isinstance(value, str)
        case "integer":
            return type(value) is int
        case "number":
            return type(value) in (int, float)
        case "boolean":
            return isinstance(value, bool)
        case "list of texts":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "object of texts":
            return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        case "object":
            return isinstance(value, dict)
        case _:
            return False


def test_types_of_the_json(amqp10: Commands, broker_url: str) -> None:
    """What the commands write has all the fields of the page, of the types that it says."""
    address = "types-of-json"
    ends = ("--from", broker_url, address, "--to", broker_url, f"{address}-to")
    amqp10("send", broker_url, address, "x", "y")
    written = {
        "check --json": [amqp10("check", broker_url, address, "--json").out, amqp10("check", GONE, "--json").out],
        "probe --json": [amqp10("probe", broker_url, "--json").out, amqp10("probe", GONE, "--json").out],
        "bridge --json --dry-run": [amqp10("bridge", *ends, "--json", "--dry-run").out],
        "bridge --json": amqp10("bridge", *ends, "--json", "-n", "2").out.splitlines(),
    }
    for command, lines in written.items():
        types = documented(command)
        for line in lines:
            found = json.loads(line)
            assert list(found) == list(types)
            assert [name for name, value in found.items() if not fits(value, types[name])] == []


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
