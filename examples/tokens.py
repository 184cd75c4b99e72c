"""Tokens that renew: at $cbs as Azure wants it, and as a login.

Usage: python tokens.py
"""

import base64
import hmac
import json
import time

import anyio

from amqp10 import (
    CbsTokens,
    Connection,
    LinkDetached,
    LoginTokens,
    Message,
    SasKey,
    Token,
    TokenRenewed,
)
from amqp10.broker import Broker, JwtKey, SasRule, TokenRules

RULES = TokenRules(
    sas=[SasRule("sender", "a key", ["Send"])], jwt=[JwtKey("the issuer's secret")]
)


async def wait_for_renewal(connection: Connection) -> None:
    async for event in connection.events():
        if isinstance(event, TokenRenewed):
            print("renewed:", event.audience)
            return


async def at_cbs(url: str) -> None:
    key = SasKey("sender", "a key", lifetime=3)  # an hour, if nothing is said
    tokens = CbsTokens(key, audience=lambda address: f"sb://example/{address}")
    async with (
        Connection(url, tokens=tokens) as connection,
        connection.sender("orders") as sender,
    ):
        await sender.send(Message("before"))
        await wait_for_renewal(connection)
        await sender.send(Message("after"))
        try:
            async with connection.receiver("orders"):
                pass
        except LinkDetached as error:
            print("the key may not receive:", error.condition)


async def from_the_issuer(scope: str) -> Token:
    """What stands for your identity provider: a JSON Web Token that lives for three
    seconds.
    """
    end = time.time() + 3
    claims = {"sub": "ann", "exp": end, "scope": "read:*/orders"}
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in ({"alg": "HS256"}, claims)
    ]
    signature = hmac.digest(b"the issuer's secret", b".".join(parts), "sha256")
    token = b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")])
    return Token(token.decode(), end)


async def as_login(url: str) -> None:
    async with (
        Connection(url, tokens=LoginTokens(from_the_issuer)) as connection,
        connection.receiver("orders") as receiver,
    ):
        print("logged in by", connection.mechanism)
        await wait_for_renewal(connection)
        async for delivery in receiver:
            print("received", delivery.message.body)
            delivery.accept()
            if delivery.message.body == "after":
                break


async def main() -> None:
    async with Broker(tokens=RULES, queues=["orders"]) as broker:
        await at_cbs(broker.url)
        await as_login(broker.url)


if __name__ == "__main__":
    anyio.run(main)
