"""`amqp10 hash-password`: the keys that a users file has in place of a password."""

from __future__ import annotations

import sys

import click

from ..sasl import SERVER_ITERATIONS, StoredKeys


@click.command("hash-password")
@click.option(
    "--iterations",
    type=click.IntRange(4096, 1_000_000),
    default=SERVER_ITERATIONS,
    help="cost of a login, and of each guess of someone who steals the file",
)
def hash_password(iterations: int) -> None:
    """Print keys to store instead of a password.

    They go into "keys" of a user in a file of users (amqp10 broker --users-file). The command asks for the password, or
    reads it from a line of standard input.
    """
    if sys.stdin is None:
        raise click.UsageError("standard input is closed, so it has no password")
    if sys.stdin.isatty():
        password = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        try:
            password = sys.stdin.readline().rstrip("\r\n")
        except UnicodeDecodeError:
            raise click.UsageError("the password on standard input must be UTF-8") from None
    if not password:
        raise click.UsageError("the password must not be empty")
    try:
        click.echo(str(StoredKeys.from_password(password, iterations=iterations)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
