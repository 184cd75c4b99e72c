// @azure/service-bus: batches of 100, one after the other; receives up to 100 at a time, and completes these
// together. Mode "sessions" stops at each stage until the runner has looked at the emulator.
'use strict';
const readline = require('node:readline');
const { ServiceBusClient } = require('@azure/service-bus');

const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];
const { mode } = args;
const count = Number(args.count);
const size = Number(args.size);
const warmup = Number(args.warmup);
const total = warmup + count;
const address = new URL(args.url).pathname.slice(1);
const body = Buffer.alloc(size, 'x');
const BATCH = 100;

let done = 0;
let from;
function start() { from = [process.hrtime.bigint(), process.cpuUsage()]; }
function tick(several) {
  const before = done;
  done += several;
  if (before < warmup && done >= warmup) start();
  return done >= total;
}
function report() {
  const cpu = process.cpuUsage(from[1]);
  console.log(JSON.stringify({
    peer: 'azure-js', mode, count, size, seconds: Number(process.hrtime.bigint() - from[0]) / 1e9,
    cpu_user: cpu.user / 1e6, cpu_sys: cpu.system / 1e6,
  }));
}

async function send(client) {
  const sender = client.createSender(address);
  for (let sent = 0; sent < total;) {
    const batch = await sender.createMessageBatch();
    while (batch.count < BATCH && sent < total && batch.tryAddMessage({ body, messageId: String(sent) })) sent++;
    await sender.sendMessages(batch);
    tick(batch.count);
  }
  report();
}

async function receive(client, receiveMode) {
  const receiver = client.createReceiver(address, { receiveMode });
  let left = total;
  while (left) {
    const messages = await receiver.receiveMessages(Math.min(left, BATCH), { maxWaitTimeInMs: 30000 });
    for (const message of messages) if (message.body.length !== size) throw new Error('wrong body');
    if (receiveMode === 'peekLock') await Promise.all(messages.map((each) => receiver.completeMessage(each)));
    left -= messages.length;
    tick(messages.length);
  }
  report();
}

async function sessions(client) {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  async function stage(name, more) {
    console.log(JSON.stringify({ stage: name, ...more }));
    await lines.next();
  }
  const sender = client.createSender(address);
  await sender.sendMessages({ body, messageId: 'first', sessionId: 'first' });
  const held = [await client.acceptSession(address, 'first')];
  await stage('before');
  for (let sent = 0; sent < count;) {
    const batch = await sender.createMessageBatch();
    while (batch.count < BATCH && sent < count) {
      if (!batch.tryAddMessage({ body, messageId: String(sent), sessionId: `s${sent}` })) break;
      sent++;
    }
    await sender.sendMessages(batch);
  }
  await stage('created');
  const began = process.hrtime.bigint();
  for (let accepted = 0; accepted < count; accepted++) {
    held.push(await client.acceptNextSession(address)); // one connection, with an AMQP session for each
  }
  await stage('accepted', { seconds: Number(process.hrtime.bigint() - began) / 1e9 });
  for (const session of held) {
    const [message] = await session.receiveMessages(1, { maxWaitTimeInMs: 30000 });
    await session.completeMessage(message);
  }
  await stage('idle', { sessions: new Set(held.map((each) => each.sessionId)).size - 1 });
  for (const session of held) await session.close();
  await stage('closed');
}

function connect() {
  return new ServiceBusClient(process.env.AMQP10_BENCH_AZURE, { retryOptions: { maxRetries: 0 } });
}

async function main() {
  const client = connect();
  if (!warmup) start();
  if (mode === 'send') await send(client);
  else if (mode === 'sessions') await sessions(client);
  else await receive(client, mode === 'lock' ? 'peekLock' : 'receiveAndDelete');
  await client.close();
  process.exit(0);
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
