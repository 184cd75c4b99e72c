// Microsoft's JavaScript SDK for Event Hubs, driven by words: see README.md. One process for all behaviors.

const assert = require("node:assert");
const {
  EventHubBufferedProducerClient, EventHubConsumerClient, EventHubProducerClient, earliestEventPosition, latestEventPosition,
} = require("@azure/event-hubs");

const [connection, ...names] = process.argv.slice(2);
const HUB = "readings";
const OPTIONS = { retryOptions: { maxRetries: 0, timeoutInMs: 60000 } };
const GROUP = EventHubConsumerClient.defaultConsumerGroupName;
const producer = new EventHubProducerClient(connection, HUB, OPTIONS);

async function publish(options, ...bodies) {
  await publishBy(producer, options, ...bodies);
}

async function publishBy(client, options, ...bodies) {
  const batch = await client.createBatch(options);
  for (const body of bodies) assert(batch.tryAdd({ body }));
  await client.sendBatch(batch);
}

// Calls `use` for each event, until it returns true, and returns the error that ended it before.
async function reading(partition, startPosition, use, options = {}) {
  const consumer = new EventHubConsumerClient(GROUP, connection, HUB, OPTIONS);
  let subscription;
  try {
    return await new Promise((resolve) => {
      subscription = consumer.subscribe(partition, {
        processEvents: async (events) => {
          if (events.some(use)) resolve(undefined);
        },
        processError: async (error) => resolve(error),
      }, { startPosition, maxWaitTimeInSeconds: 1, ...options });
    });
  } finally {
    await subscription.close();
    await consumer.close();
  }
}

async function read(partition, startPosition, count) {
  const found = [];
  const error = await reading(partition, startPosition, (event) => found.push(event) >= count);
  if (error) throw error;
  return found;
}

const bodies = (events) => events.map((event) => event.body);

const behaviors = {
  async properties() {
    const hub = await producer.getEventHubProperties();
    assert.deepStrictEqual([hub.name, hub.partitionIds], [HUB, ["0", "1", "2", "3", "4", "5", "6", "7"]]);
    const partition = await producer.getPartitionProperties("7");
    assert.deepStrictEqual([partition.partitionId, partition.isEmpty], ["7", true]);
  },

  async event() {
    const before = Date.now() - 60000;
    await producer.sendBatch(
      [{ body: { text: "x", n: 1 }, messageId: "m", correlationId: "c", contentType: "application/json", properties: { color: "red" } }],
      { partitionId: "0" },
    );
    const [event] = await read("0", earliestEventPosition, 1);
    assert.deepStrictEqual(event.body, { text: "x", n: 1 });
    assert.deepStrictEqual([event.messageId, event.correlationId, event.contentType], ["m", "c", "application/json"]);
    assert.deepStrictEqual([event.properties, event.sequenceNumber, event.offset], [{ color: "red" }, 0, "0"]);
    assert(event.enqueuedTimeUtc.getTime() > before);
  },

  async batch() {
    await publish({ partitionId: "1" }, "a", "b", "c");
    assert.deepStrictEqual(bodies(await read("1", earliestEventPosition, 3)), ["a", "b", "c"]);
  },

  async positions() {
    await publish({ partitionId: "2" }, "a", "b", "c");
    const all = await read("2", earliestEventPosition, 3);
    const first = async (position) => (await read("2", position, 1))[0].body;
    assert.strictEqual(await first({ sequenceNumber: 1, isInclusive: true }), "b");
    assert.strictEqual(await first({ sequenceNumber: 1 }), "c");
    assert.strictEqual(await first({ offset: all[1].offset }), "c");
    assert.strictEqual(await first({ enqueuedOn: new Date(all[0].enqueuedTimeUtc.getTime() - 1000) }), "a");
  },

  async keys() {
    const keyed = new EventHubProducerClient(connection, "keyed", OPTIONS);
    await publishBy(keyed, { partitionKey: "amsterdam" }, "k1");
    await publishBy(keyed, { partitionKey: "amsterdam" }, "k2");
    await keyed.close();
    const consumer = new EventHubConsumerClient(GROUP, connection, "keyed", OPTIONS);
    const found = [];
    let subscription;
    await new Promise((resolve, reject) => {
      subscription = consumer.subscribe({
        processEvents: async (events, context) => {
          for (const event of events) if (event.partitionKey) found.push([event.body, event.partitionKey, context.partitionId]);
          if (found.length >= 2) resolve();
        },
        processError: async (error) => reject(error),
      }, { startPosition: earliestEventPosition, maxWaitTimeInSeconds: 1 });
    });
    await subscription.close();
    await consumer.close();
    const [[, , partition]] = found;
    assert.deepStrictEqual(found, [["k1", "amsterdam", partition], ["k2", "amsterdam", partition]]);
  },

  async latest() {
    await publish({ partitionId: "4" }, "before");
    const found = [];
    let tries = 0;
    const sending = setInterval(() => publish({ partitionId: "4" }, `after ${tries++}`).catch(() => {}), 200);
    const error = await reading("4", latestEventPosition, (event) => found.push(event.body) > 0);
    clearInterval(sending);
    if (error) throw error;
    assert(found[0].startsWith("after"));
  },

  async last() {
    await publish({ partitionId: "5" }, "x");
    const consumer = new EventHubConsumerClient(GROUP, connection, HUB, OPTIONS);
    let subscription;
    const last = await new Promise((resolve, reject) => {
      subscription = consumer.subscribe("5", {
        processEvents: async (events, context) => {
          if (events.length) resolve(context.lastEnqueuedEventProperties);
        },
        processError: async (error) => reject(error),
      }, { startPosition: earliestEventPosition, trackLastEnqueuedEventProperties: true, maxWaitTimeInSeconds: 1 });
    });
    await subscription.close();
    await consumer.close();
    assert.deepStrictEqual([last.sequenceNumber, last.offset], [0, "0"]);
  },

  async owner() {
    await publish({ partitionId: "6" }, "x");
    let second;
    const error = await reading("6", earliestEventPosition, () => {
      second = reading("6", earliestEventPosition, () => true, { ownerLevel: 2 });
      return false;
    }, { ownerLevel: 1 });
    assert.strictEqual(error.code, "ReceiverDisconnectedError");
    assert.strictEqual(await second, undefined);
  },

  async buffered() {
    let taken = 0;
    const buffered = new EventHubBufferedProducerClient(connection, HUB, {
      ...OPTIONS,
      maxWaitTimeInMs: 100,
      onSendEventsErrorHandler: async (context) => console.error(context.error),
      onSendEventsSuccessHandler: async (context) => { taken += context.events.length; },
    });
    for (let number = 0; number < 10; number++) await buffered.enqueueEvent({ body: number }, { partitionId: "3" });
    await buffered.close();
    assert.strictEqual(taken, 10);
    const found = (await read("3", earliestEventPosition, 10)).map((event) => event.body);
    assert.deepStrictEqual(found.filter((body) => typeof body === "number"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  },

  async missing() {
    const client = new EventHubProducerClient(connection, "missing", OPTIONS);
    await assert.rejects(client.sendBatch([{ body: "x" }]), { code: "MessagingEntityNotFoundError", message: /missing/ });
    await client.close();
  },
};

async function main() {
  await Promise.all(
    names.map(async (behavior) => {
      let error = "";
      try {
        await behaviors[behavior]();
      } catch (problem) {
        error = String(problem.stack ?? problem);
      }
      console.log(JSON.stringify({ behavior, error }));
    }),
  );
  await producer.close();
  console.log(JSON.stringify({ done: true }));
  process.exit(0);
}

main();
