"""azure-servicebus and azure-eventhub without `await`: batches of 100, one after the other; receive 100 at a time."""

from __future__ import annotations

import os

from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient, PartitionContext
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from clock import Clock

BATCH = 100
WAIT = 30
"""Seconds that a receive waits for what is there already."""
clock = Clock("azure-sdk", ("send", "lock", "delete", "events-send", "events-receive"))
where = os.environ["AMQP10_BENCH_AZURE"]


def send(client: ServiceBusClient) -> None:
    """Batches, each of new messages."""
    with client.get_queue_sender(clock.address) as sender:
        while clock.done < clock.total:
            batch = sender.create_message_batch()
            for number in range(clock.done, min(clock.done + BATCH, clock.total)):
                batch.add_message(ServiceBusMessage(clock.body, message_id=str(number)))
            sender.send_messages(batch)
            clock.tick(len(batch))
        clock.report()


def receive(client: ServiceBusClient) -> None:
    """Up to 100 at a time; each completed, where they are locked."""
    mode = ServiceBusReceiveMode.PEEK_LOCK if clock.mode == "lock" else ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(clock.address, receive_mode=mode) as receiver:
        while clock.done < clock.total:
            messages = receiver.receive_messages(min(BATCH, clock.total - clock.done), max_wait_time=WAIT)
            for message in messages:
                assert sum(map(len, message.body)) == clock.size
                if clock.mode == "lock":
                    receiver.complete_message(message)
            clock.tick(len(messages))
        clock.report()


def send_events() -> None:
    """Batches, each of new events, to one partition."""
    with EventHubProducerClient.from_connection_string(where, eventhub_name=clock.address) as producer:
        while clock.done < clock.total:
            batch = producer.create_batch(partition_id="0")
            for number in range(clock.done, min(clock.done + BATCH, clock.total)):
                event = EventData(clock.body)
                event.message_id = str(number)
                batch.add(event)
            producer.send_batch(batch)
            clock.tick(len(batch))
        clock.report()


def read() -> None:
    """Events of one partition, from the first one on, up to 100 at a time."""
    consumer = EventHubConsumerClient.from_connection_string(where, "$Default", eventhub_name=clock.address)

    def on_events(_: PartitionContext, events: list[EventData]) -> None:
        assert all(sum(map(len, each.body)) == clock.size for each in events)
        if clock.done < clock.total and clock.tick(len(events)):
            clock.report()
            consumer.close()

    consumer.receive_batch(on_events, max_batch_size=BATCH, partition_id="0", starting_position="-1")


clock.begin()
if clock.mode == "events-send":
    send_events()
elif clock.mode == "events-receive":
    read()
else:
    with ServiceBusClient.from_connection_string(where) as own:
        (send if clock.mode == "send" else receive)(own)
