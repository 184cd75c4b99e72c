"""The program that the recipes test: it places orders, and a worker ships them."""

from amqp10 import Connection, DeadLetter, Message, Reconnect, Retries, Worker


def connect(url: str, reconnect: Reconnect | None = None) -> Connection:
    return Connection(url, reconnect=reconnect or Reconnect())


async def place(connection: Connection, order: int) -> None:
    async with connection.sender("orders") as sender:
        await sender.send(
            Message({"order": order}, message_id=f"order-{order}", durable=True)
        )


class Shop:
    def __init__(self) -> None:
        self.shipped: set[int] = set()  # a message may come twice

    async def ship(self, message: Message) -> None:
        order = message.body["order"]
        if order < 0:
            raise DeadLetter("there is no such order")
        self.shipped.add(order)

    def worker(self, connection: Connection) -> Worker:
        return Worker(
            connection,
            "orders",
            self.ship,
            retries=Retries(initial_delay=0),
            dead_letters="orders.dead",
        )
