"""Test against Azure Event Hubs without Docker: Microsoft's SDK speaks to an emulator in
this process.
"""

from threading import Event, Thread

from azure.eventhub import (
    EventData,
    EventHubConsumerClient,
    EventHubProducerClient,
    PartitionContext,
)

from amqp10.broker.azure import AzureConfig, EventHubConfig
from amqp10.testing import BackgroundEventHubs

config = AzureConfig(
    event_hubs=[EventHubConfig("orders", 4, ["kitchen"], retention=3600.0)]
)

with (
    BackgroundEventHubs(config) as event_hubs,
    EventHubProducerClient.from_connection_string(event_hubs.of("orders")) as producer,
):
    # All its events are in one partition, in order
    batch = producer.create_batch(partition_key="table-7")
    batch.add(EventData("tea"))
    batch.add(EventData("cake"))
    producer.send_batch(batch)

    done = Event()

    def on_events(context: PartitionContext, events: list[EventData]) -> None:
        for event in events:
            key = (event.partition_key or b"").decode()
            print(f"{event.body_as_str()} of {key}, number {event.sequence_number}")
        done.set()

    consumer = EventHubConsumerClient.from_connection_string(
        event_hubs.of("orders"), "kitchen"
    )
    thread = Thread(
        target=lambda: consumer.receive_batch(on_events, starting_position="-1")
    )
    thread.start()
    done.wait(20)
    consumer.close()
    thread.join()

    event_hubs.advance(3601)  # old events go
    partitions = [
        producer.get_partition_properties(each) for each in producer.get_partition_ids()
    ]
    if all(each["is_empty"] for each in partitions):
        print("nothing is left of yesterday")
