"""`amqp10 check`: whether a broker can be worked with, as an exit code: for probes of containers, and monitoring."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from time import monotonic

import anyio
import click

from ..client import Connection
from ..messaging import Source
from ..net import visible
from ..types import Symbol
from ._main import Failure, start
from ._options import Peer, with_peer


@dataclass
class Checked:
    """What was found.

    Attributes:
        url: where it was asked, without the password.
        dialect: the protocol that is spoken.
        broker: what the broker says that it is, with its version.
        seconds: how long it took, with the login and the links.
        address: the address that was attached to.
        roles: what it was attached for, "receive" and "send".
    """

    url: str
    dialect: str
    broker: str
    seconds: float
    address: str | None
    roles: list[str]

    def __str__(self) -> str:
        address = f"; {self.address}: {' and '.join(self.roles)}" if self.address is not None else ""
        return f"ok: {self.url}, {self.broker}, dialect {self.dialect}, {self.seconds:.3f} s{address}"


async def check_address(connection: Connection, address: str, roles: list[str]) -> None:
    """Attach to an address and detach again. Nothing is sent, and no message is asked for."""
    if "receive" in roles:
        async with connection.receiver(Source(address), credit=0):
            pass
    if "send" in roles:
        async with connection.sender(address):
            pass


def product_of(connection: Connection) -> str:
    """Return the broker's name and version, as its open says them."""
    said = [connection.remote_properties.get(Symbol(name)) for name in ("product", "version")]
    return visible(" ".join(str(each) for each in said if each) or connection.remote_container_id)


@click.command()
@with_peer()
@click.argument("address", required=False)
@click.option(
    "--for",
    "role",
    type=click.Choice(["receive", "send", "both"]),
    default="receive",
    show_default=True,
    help="what ADDRESS is to be attached for",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="for all of it",
)
@click.option("--json", "as_json", is_flag=True, help="print what was found as one JSON object")
@click.option("--quiet", is_flag=True, help="print nothing when all is well")
def check(peer: Peer, address: str | None, role: str, timeout: float, as_json: bool, quiet: bool) -> None:
    """See whether the broker at URL lets us in, and to ADDRESS; the exit code says it.

    Nothing is sent and no message is taken. A broker that makes addresses on first use makes ADDRESS.

    \b
    Exit codes:
      0 all is well                  4 the login was refused, or would be insecure
      3 no connection, no answer     5 ADDRESS was refused
    """
    roles = [] if address is None else ["receive", "send"] if role == "both" else [role]
    began = monotonic()

    async def run() -> Checked:
        with anyio.move_on_after(timeout):
            async with peer.connect(connect_timeout=None, close_timeout=min(timeout, 1.0)) as connection:
                if address is not None:
                    await check_address(connection, address, roles)
                broker = product_of(connection)
                return Checked(peer.shown, connection.dialect, broker, monotonic() - began, address, roles)
        raise Failure(f"no answer from {peer.shown} in {timeout:g} s", 3)

    found = start(run)
    if as_json:
        click.echo(json.dumps(asdict(found)))
    elif not quiet:
        click.echo(str(found))
