"""Test against Azure Service Bus without Docker: Microsoft's SDK speaks to an emulator in
this process.
"""

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from amqp10.broker.azure import AzureConfig, QueueConfig
from amqp10.testing import BackgroundServiceBus

config = AzureConfig([QueueConfig("orders", lock_duration=30.0)])

with (
    BackgroundServiceBus(config) as service_bus,
    ServiceBusClient.from_connection_string(service_bus.connection_string) as client,
):
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("two teas"))
    with client.get_queue_receiver("orders") as receiver:
        [message] = receiver.receive_messages(max_wait_time=10)
        print(f"{message} is locked, at attempt {(message.delivery_count or 0) + 1}")
        service_bus.advance(31)  # the lock ends, and the message comes again
        [message] = receiver.receive_messages(max_wait_time=10)
        print(f"{message} is locked, at attempt {(message.delivery_count or 0) + 1}")
        receiver.complete_message(message)
