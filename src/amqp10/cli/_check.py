"""`amqp10 check`: tests whether a broker is usable, for container probes and monitoring."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from time import monotonic

import anyio
import click

from ..client import Connection
from ..errors import AmqpError
from ..messaging import Source
from ..net import visible
from ..types import Symbol
from ._main import Failure, code_of, start, words
from ._options import MORE_THAN_NO_SECONDS, Peer, with_peer


@dataclass
class Checked:
    """The result of a check.

    Attributes:
        url: the URL, without the password.
        address: the address to attach to.
        roles: the roles in which to attach, "receive" and "send".
        dialect: the dialect; None until a connection is open.
        broker: the broker's product and version; None until a connection is open.
        seconds: the duration, including login and links.
        error: why the broker is not usable; None if it is.
    """

    url: str
    address: str | None
    roles: list[str]
    dialect: str | None = None
    broker: str | None = None
    seconds: float = 0.0
    error: str | None = None

    def __str__(self) -> str:
        address = f"; {self.address}: {' and '.join(self.roles)}" if self.address is not None else ""
        return f"ok: {self.url}, {self.broker}, dialect {self.dialect}, {self.seconds:.3f} s{address}"


async def check_address(connection: Connection, address: str, roles: list[str]) -> None:
    """Attach to an address and detach again, without sending or requesting a message."""
    for role in roles:
        try:
            async with (
                connection.receiver(Source(address), credit=0) if role == "receive" else connection.sender(address)
            ):
                pass
        except AmqpError as error:
            other = "send" if role == "receive" else "receive"
            error.add_note(f"it was attached to {role}; `--for {other}` asks for the other role")
            raise


def product_of(connection: Connection) -> str:
    """Return the broker's name and version from its open."""
    names = [connection.remote_properties.get(Symbol(name)) for name in ("product", "version")]
    return visible(" ".join(str(each) for each in names if each) or connection.remote_container_id)


@click.command()
@with_peer()
@click.argument("address", required=False)
@click.option(
    "--for",
    "role",
    type=click.Choice(["receive", "send", "both"]),
    default="receive",
    help="the direction in which to attach to ADDRESS",
)
@click.option("--timeout", type=MORE_THAN_NO_SECONDS, default=5.0, help="for the whole check")
@click.option("--json", "as_json", is_flag=True, help="print the result as one JSON object")
@click.option("--quiet", is_flag=True, help="print nothing if everything works")
def check(peer: Peer, address: str | None, role: str, timeout: float, as_json: bool, quiet: bool) -> None:
    """Test whether a broker lets us in.

    It connects to the broker at URL, logs in, and attaches to ADDRESS if you give one. The exit code is the result.

    It sends nothing and takes no message. A broker that creates addresses on first use creates ADDRESS.

    \b
    Exit codes:
      0 everything works             4 the login was refused, or would be insecure
      3 no connection, no answer     5 ADDRESS was refused
    """
    roles = [] if address is None else ["receive", "send"] if role == "both" else [role]
    found = Checked(peer.shown, address, roles)

    async def run() -> int:
        began = monotonic()
        code = 0
        try:
            with anyio.fail_after(timeout):
                async with peer.connect(connect_timeout=None, close_timeout=min(timeout, 1.0)) as connection:
                    found.dialect, found.broker = connection.dialect, product_of(connection)
                    if address is not None:
                        await check_address(connection, address, roles)
        except TimeoutError:
            found.error, code = f"no answer from {peer.shown} in {timeout:g} s", 3
        except AmqpError as error:
            found.error, code = words(error), code_of(error) or 1
        found.seconds = monotonic() - began
        return code

    code = start(run)
    if as_json:
        click.echo(json.dumps(asdict(found)))
    if found.error is not None:
        raise Failure(found.error, code)
    if not (as_json or quiet):
        click.echo(str(found))
