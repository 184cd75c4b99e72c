"""The group of commands, which turns each failure into one line and an exit code."""

from __future__ import annotations

import difflib
import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import click
from click.core import ParameterSource

from .._version import __version__
from ..errors import (
    AmqpError,
    AuthenticationFailed,
    ConnectionLost,
    DecodeError,
    EncodeError,
    EndpointError,
    FilterNotApplied,
    InsecureTransport,
    MessageNotAccepted,
    RedirectRefused,
)
from ..net import visible

T = TypeVar("T")

# Searched in order: the first matching class gives the exit code.
EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (ConnectionLost, 3),
    (AuthenticationFailed, 4),
    (InsecureTransport, 4),
    (RedirectRefused, 4),
    (EndpointError, 5),
    (FilterNotApplied, 5),
    (MessageNotAccepted, 6),
    (EncodeError, 7),
    (DecodeError, 7),
    (AmqpError, 1),
    (OSError, 1),
)

COMMANDS = {
    "broker": "_broker",
    "send": "_send",
    "receive": "_receive",
    "browse": "_receive",
    "work": "_work",
    "bridge": "_bridge",
    "probe": "_probe",
    "check": "_check",
    "trace": "_trace.command",
    "demo": "_demo",
    "pipeline": "_pipeline",
    "hash-password": "_hash_password",
}

EXAMPLES = {
    "broker": ["amqp10 broker", "amqp10 broker --port 5673 --user ann:secret --store broker.db"],
    "send": [
        "amqp10 send amqp://localhost orders hello",
        "amqp10 send amqp://localhost orders --json-lines < orders.jsonl",
    ],
    "receive": [
        "amqp10 receive amqp://localhost orders --count 1",
        "amqp10 receive amqp://localhost orders --format json --wait 0 > orders.jsonl",
    ],
    "browse": ["amqp10 browse amqp://localhost orders --selector \"region = 'eu'\""],
    "work": ["amqp10 work shop.orders:handle amqp://localhost orders --concurrency 20 --dead-letters orders.dead"],
    "bridge": ["amqp10 bridge --from amqp://localhost orders --to amqps://ann@broker.example orders --until-empty"],
    "probe": ["amqp10 probe amqps://broker.example"],
    "check": ["amqp10 check amqps://ann@broker.example orders"],
    "trace": ["amqp10 trace amqp://localhost --listen 5673 --output trace.html"],
    "demo": ["amqp10 demo"],
    "pipeline": [
        "amqp10 pipeline --from amqp://localhost --address orders --to parquet:/lake/orders",
        "amqp10 pipeline --from amqp://a --address in --to amqp://b --to-address out --checkpoint /c",
    ],
    "hash-password": ["amqp10 hash-password"],
}
"""The examples at the end of each command's `--help`."""

OPTIONS = {
    "allow_insecure=True": "allow-insecure",
    "tls_upgrade=True": "tls-upgrade",
    "TLS(ca=...)": "tls-ca FILE",
    "TLS(server_hostname=...)": "tls-server-hostname NAME",
    "TLS(certificate=..., key=...)": "tls-certificate FILE and --tls-key FILE",
}
"""Advice for programs in errors, and the equivalent option here."""


class Failure(Exception):
    """A command failed for a reason of its own; `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(BaseException):
    """SIGINT or SIGTERM ended the command after a cleanup, or its output has no reader (SIGPIPE)."""

    def __init__(self, number: int) -> None:
        self.number = number


class Stalled(BaseException):
    """The command must end while its output is not read, so that a thread still waits to write."""


class LazyGroup(click.Group):
    """Loads the module of a command on first use."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        gc.disable()  # imported objects stay, and searching them for garbage takes a tenth of the start
        try:
            module = importlib.import_module(f"amqp10.cli.{COMMANDS[name]}")
        finally:
            gc.enable()
        command: click.Command = getattr(module, name.replace("-", "_"))
        command.epilog = "\n".join(["\b", "Examples:", *(f"  {example}" for example in EXAMPLES[name])])
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output is gone; click would exit with code 1
            raise Interrupted(signal.SIGPIPE) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            for close in difflib.get_close_matches(args[0], COMMANDS, 1):
                raise click.UsageError(f"{error.message} Did you mean {close!r}?", ctx) from None
            raise


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "AMQP10",
        "show_default": True,
    },
)
@click.version_option(__version__, allow_from_autoenv=False)
def cli() -> None:
    """Use AMQP from the command line.

    Every option is also an environment variable: AMQP10_WORK_CONCURRENCY is --concurrency of work. The URL "-" stands
    for AMQP10_URL, or for the content of the file AMQP10_URL_FILE.

    \b
    Exit codes:
      0 done                         4 authentication failed, or refused as insecure
      1 another failure              5 the peer closed the connection or refused the link
      2 wrong usage                  6 a message was not accepted
      3 no connection, or lost       7 a message cannot be encoded or decoded
      128+N ended by signal N
    """


def run(arguments: list[str] | None) -> int:
    try:
        cli.main(arguments, prog_name="amqp10", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        if isinstance(error, click.BadParameter):
            name_variable(error)
        error.show()
        return error.exit_code
    except (Interrupted, KeyboardInterrupt) as error:
        return 128 + (error.number if isinstance(error, Interrupted) else signal.SIGINT)
    except click.Abort:
        return 128 + signal.SIGINT
    except Failure as error:
        return complain(str(error), error.code)
    except Exception as error:
        code = code_of(error)
        if code is not None:
            return complain(words(error), code)
        if sys.flags.dev_mode:
            raise
        return complain(f"{words(error)} (not foreseen; `python -X dev -m amqp10` shows where)", 1)
    return 0


def name_variable(error: click.BadParameter) -> None:
    """Make an error name the environment variable that the wrong value of an option came from."""
    context, option = error.ctx, error.param
    if context is None or not isinstance(option, click.Option) or option.name is None:
        return
    if context.get_parameter_source(option.name) is ParameterSource.ENVIRONMENT:
        names = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
        names.append(f"{context.auto_envvar_prefix}_{option.name.upper()}")
        given = [name for name in names if name in os.environ]
        error.param_hint = f"{' / '.join(given)} ({option.opts[-1]})"


def code_of(error: BaseException) -> int | None:
    """Return the exit code for an error; None for an unexpected error."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), None)


def words(error: BaseException, options: str = "--") -> str:
    """Describe an error in one line: its kind, its message, and the advice in its notes.

    Args:
        options: the prefix of the options for the connection.
    """
    notes = (f"; {note}" for note in getattr(error, "__notes__", ()))
    text = " ".join("".join((str(error), *notes)).split())
    for argument, option in OPTIONS.items():
        text = text.replace(argument, options + option)
    kind = spaced(type(error).__name__)
    return f"{kind}: {text}" if text else kind


def spaced(name: str) -> str:
    """Return the name of a class in words: `ConnectionLost` is "connection lost"."""
    parts = re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return " ".join(part if part.isupper() else part.lower() for part in parts)


def complain(message: str, code: int) -> int:
    with suppress(OSError):  # the code tells of the failure, too
        click.echo(f"amqp10: {visible(message)}", err=True)
    return code


def start(function: Callable[[], Awaitable[T]]) -> T:
    """Run a command's coroutine on trio; the first SIGINT or SIGTERM cancels it, so that it can clean up."""
    ended: list[int] = []

    async def supervised() -> T | None:
        result: Any = None
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                    async for number in signals:
                        ended.append(number)
                        tasks.cancel_scope.cancel()
                        break
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # like SIGTERM, a second SIGINT kills the process

            tasks.start_soon(watch)
            result = await function()
            tasks.cancel_scope.cancel()
        return result  # type: ignore[no-any-return]

    try:
        result = anyio.run(supervised, backend="trio")
    except BaseExceptionGroup as group:
        cause = first(group)
        if isinstance(cause, Stalled) and ended:
            os._exit(128 + ended[0])  # an orderly exit would wait for the thread
        raise cause from None
    if ended:
        raise Interrupted(ended[0])
    return result  # type: ignore[return-value]


def first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group, because tasks mostly fail for the same reason."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
