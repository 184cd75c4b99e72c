// Microsoft's JavaScript SDK for Service Bus, driven by words: see README.md. One process for all behaviors.

const assert = require("node:assert");
const { ServiceBusClient, ServiceBusAdministrationClient } = require("@azure/service-bus");

const [connection, administration, ...names] = process.argv.slice(2);
const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0, timeoutInMs: 20000 } });

// Without an id, by which the SDK finds a message again that it settles: the service gives one.
async function send(queue, ...messages) {
  const sender = client.createSender(queue);
  await sender.sendMessages(messages);
  await sender.close();
}

async function receive(receiver, count) {
  const found = [];
  for (let tries = 0; found.length < count && tries < 4; tries++) {
    found.push(...(await receiver.receiveMessages(count - found.length, { maxWaitTimeInMs: 5000 })));
  }
  return found;
}

async function peek(queue) {
  return (await client.createReceiver(queue).peekMessages(20)).map((message) => message.body);
}

const behaviors = {
  async settle() {
    await send("settled", ...["complete", "abandon", "defer", "dead"].map((body) => ({ body, subject: body })));
    const receiver = client.createReceiver("settled");
    const [first, second, third, fourth] = await receive(receiver, 4);
    assert.strictEqual(first.subject, "complete");
    await receiver.completeMessage(first);
    await receiver.abandonMessage(second, { again: true });
    await receiver.deferMessage(third);
    await receiver.deadLetterMessage(fourth, { deadLetterReason: "bad", deadLetterErrorDescription: "very bad" });
    const [again] = await receive(receiver, 1);
    assert.deepStrictEqual([again.body, again.deliveryCount, again.applicationProperties.again], ["abandon", 1, true]);
    await receiver.completeMessage(again);
    const [deferred] = await receiver.receiveDeferredMessages(third.sequenceNumber);
    await receiver.completeMessage(deferred);
    assert.deepStrictEqual(await peek("settled"), []);
    const dead = client.createReceiver("settled", { subQueueType: "deadLetter", receiveMode: "receiveAndDelete" });
    const [buried] = await receive(dead, 1);
    assert.deepStrictEqual([buried.deadLetterReason, buried.deadLetterErrorDescription], ["bad", "very bad"]);
  },

  async batch() {
    const sender = client.createSender("batched");
    const batch = await sender.createMessageBatch();
    for (let number = 0; number < 10; number++) assert(batch.tryAddMessage({ body: `m${number}` }));
    await sender.sendMessages(batch);
    const receiver = client.createReceiver("batched", { receiveMode: "receiveAndDelete" });
    const found = await receive(receiver, 10);
    assert.deepStrictEqual(found.map((message) => message.body), [...Array(10).keys()].map((number) => `m${number}`));
  },

  async renew() {
    await send("renewed", { body: "x" });
    const receiver = client.createReceiver("renewed");
    const [message] = await receive(receiver, 1);
    const before = message.lockedUntilUtc;
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert((await receiver.renewMessageLock(message)) > before);
    await receiver.completeMessage(message);
  },

  async sessions() {
    await send("sessions", ...[0, 1, 2, 3].map((n) => ({ body: n, sessionId: n % 2 ? "odd" : "even" })));
    const odd = await client.acceptSession("sessions", "odd");
    assert.deepStrictEqual((await receive(odd, 2)).map((message) => message.body), [1, 3]);
    await odd.setSessionState({ half: true });
    assert.deepStrictEqual(await odd.getSessionState(), { half: true });
    await odd.renewSessionLock();
    const next = await client.acceptNextSession("sessions");
    assert.strictEqual(next.sessionId, "even");
    await assert.rejects(client.acceptSession("sessions", "odd"), { code: "SessionCannotBeLocked" });
  },

  async schedule() {
    const sender = client.createSender("scheduled");
    const due = new Date(Date.now() + 3600 * 1000);
    const [keep, drop] = await sender.scheduleMessages([{ body: "keep" }, { body: "drop" }], due);
    await sender.cancelScheduledMessages(drop);
    const [peeked, ...others] = await client.createReceiver("scheduled").peekMessages(5);
    assert.deepStrictEqual([peeked.sequenceNumber.equals(keep), peeked.state, others.length], [true, "scheduled", 0]);
  },

  async subscribe() {
    await send("events", { body: "x", applicationProperties: { color: "blue" } }, { body: "y", applicationProperties: { color: "red" } });
    const receiver = client.createReceiver("events", "red", { receiveMode: "receiveAndDelete" });
    assert.deepStrictEqual((await receive(receiver, 1)).map((message) => message.body), ["y"]);
    const rules = client.createRuleManager("events", "red");
    await rules.createRule("blue", { applicationProperties: { color: "blue" } });
    const found = [];
    for await (const rule of rules.listRules()) found.push(rule.name);
    assert.deepStrictEqual(found, ["red", "blue"]);
    await rules.deleteRule("blue");
  },

  async processor() {
    await send("processed", ...[0, 1, 2].map((body) => ({ body })));
    const found = [];
    await new Promise((resolve, reject) => {
      client.createReceiver("processed").subscribe({
        processMessage: async (message) => {
          found.push(message.body);
          if (found.length === 3) resolve();
        },
        processError: async (problem) => reject(problem.error),
      });
    });
    assert.deepStrictEqual(found.sort(), [0, 1, 2]);
  },

  async missing() {
    await assert.rejects(send("missing", { body: "x" }), { code: "MessagingEntityNotFound" });
  },

  async administer() {
    const admin = new ServiceBusAdministrationClient(administration);
    const made = await admin.createQueue("new", { maxDeliveryCount: 4, lockDuration: "PT45S", requiresSession: true });
    assert.deepStrictEqual([made.maxDeliveryCount, made.lockDuration, made.requiresSession], [4, "PT45S", true]);
    made.userMetadata = "mine";
    assert.strictEqual((await admin.updateQueue(made)).userMetadata, "mine");
    await assert.rejects(admin.createQueue("new"), { code: "MessageEntityAlreadyExistsError" });
    await admin.createTopic("news");
    await admin.createSubscription("news", "all", { defaultRuleOptions: { name: "first", filter: { sqlExpression: "n = 1" } } });
    await admin.createRule("news", "all", "second", { subject: "s", applicationProperties: { n: 1 } });
    const rules = [];
    for await (const rule of admin.listRules("news", "all")) rules.push([rule.name, rule.filter.sqlExpression ?? rule.filter.subject]);
    assert.deepStrictEqual(rules, [["first", "n = 1"], ["second", "s"]]);
    const runtime = await admin.getQueueRuntimeProperties("new");
    assert.deepStrictEqual([runtime.activeMessageCount, runtime.totalMessageCount], [0, 0]);
    assert.strictEqual(await admin.queueExists("new"), true);
    await admin.deleteQueue("new");
    assert.strictEqual(await admin.queueExists("new"), false);
    assert((await admin.getNamespaceProperties()).name.startsWith("localhost"));
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
  await client.close();
  console.log(JSON.stringify({ done: true }));
  process.exit(0);
}

main();
