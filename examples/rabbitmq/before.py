"""A publisher and a consumer with pika, in AMQP 0-9-1. Usage: python before.py [URL]"""

import sys

import pika
from pika.exceptions import UnroutableError


def main(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("moving-events", "topic", durable=True)
        quorum = {"x-queue-type": "quorum"}
        channel.queue_declare("moving-orders", durable=True, arguments=quorum)
        channel.queue_bind("moving-orders", "moving-events", "order.*")

        channel.confirm_delivery()
        durable = pika.BasicProperties(delivery_mode=2, headers={"region": "eu"})
        channel.basic_publish(
            "moving-events", "order.created", b"order 1", durable, mandatory=True
        )
        channel.basic_publish("", "moving-orders", b"order 2", durable, mandatory=True)
        try:
            channel.basic_publish(
                "moving-events", "nobody", b"order 3", durable, mandatory=True
            )
        except UnroutableError:
            print("no queue took order 3")

        channel.basic_qos(prefetch_count=50)
        for method, properties, body in channel.consume(
            "moving-orders", inactivity_timeout=1
        ):
            if method is None:
                break
            if body == b"order 2" and not method.redelivered:
                print("order 2 failed")
                channel.basic_nack(method.delivery_tag, requeue=True)
                continue
            print(body.decode(), properties.headers["region"])
            channel.basic_ack(method.delivery_tag)


main(sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@localhost")
