"""A broker whose users may do different things. Usage: python users_and_permissions.py"""

import anyio

from amqp10 import AmqpError, Connection
from amqp10.broker import Broker, Permissions, User

USERS = {
    # makes and reads what begins with "orders.", and sends only there
    "shop": User(
        "buy",
        {"/": Permissions(configure=r"^orders\.", write=r"^orders\.", read=r"^orders\.")},
    ),
    # reads one queue, and does nothing else
    "audit": User("look", {"/": Permissions(read=r"^orders\.paid$")}),
    # everything, and the quarantine
    "root": User("all", administrator=True),
}


async def attempt(what: str, url: str, address: str) -> None:
    try:
        async with Connection(url) as connection, connection.sender(address) as sender:
            await sender.send("order 1")
        print(f"{what}: sent to {address}")
    except AmqpError as error:
        print(f"{what}: {getattr(error, 'condition', error)}")


async def main() -> None:
    async with Broker(users=USERS, queues=["invoices"]) as broker:
        shop, audit, root = (
            broker.url.replace("//", f"//{login}@")
            for login in ("shop:buy", "audit:look", "root:all")
        )
        await attempt("shop", shop, "orders.paid")
        await attempt("shop", shop, "invoices")
        await attempt("audit", audit, "orders.paid")
        await attempt("root", root, "invoices")
        async with (
            Connection(audit) as connection,
            connection.receiver("orders.paid") as receiver,
        ):
            with await receiver.receive() as message:
                print(f"audit: received {message.body}")


anyio.run(main)
