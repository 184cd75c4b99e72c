// Microsoft's JavaScript processor of Event Hubs: see README.md. It runs until its standard input ends.

const { EventHubConsumerClient, earliestEventPosition } = require("@azure/event-hubs");
const { BlobCheckpointStore } = require("@azure/eventhubs-checkpointstore-blob");
const { ContainerClient } = require("@azure/storage-blob");

const [connection, storage, container, namespace, expiry] = process.argv.slice(2);

// This SDK leaves out the port of an emulator where it names blobs, and the one for Python does not. Azure has no ports.
class Store extends BlobCheckpointStore {
  async listOwnership(_, ...rest) {
    return super.listOwnership(namespace, ...rest);
  }

  async claimOwnership(owned) {
    return super.claimOwnership(owned.map((each) => ({ ...each, fullyQualifiedNamespace: namespace })));
  }

  async listCheckpoints(_, ...rest) {
    return super.listCheckpoints(namespace, ...rest);
  }

  async updateCheckpoint(checkpoint) {
    return super.updateCheckpoint({ ...checkpoint, fullyQualifiedNamespace: namespace });
  }
}

const client = new EventHubConsumerClient(
  EventHubConsumerClient.defaultConsumerGroupName, connection, "telemetry", new Store(new ContainerClient(storage, container)),
  {
    loadBalancingOptions: {
      strategy: "balanced", updateIntervalInMs: 500, partitionOwnershipExpirationIntervalInMs: 1000 * Number(expiry),
    },
  },
);
const subscription = client.subscribe({
  processEvents: async (events, context) => {
    for (const event of events) console.log(JSON.stringify({ body: String(event.body) }));
    if (events.length) await context.updateCheckpoint(events[events.length - 1]);
  },
  processError: async (error) => console.error(error),
}, { startPosition: earliestEventPosition, maxWaitTimeInSeconds: 1 });

process.stdin.resume();
process.stdin.on("end", async () => {
  await subscription.close();
  await client.close();
  console.log(JSON.stringify({ done: true }));
  process.exit(0);
});
