// rhea with real messages: what real_clients.py asks for.
'use strict';
const fs = require('fs');
const rhea = require('rhea');

const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];
const mode = args.mode;
const count = Number(args.count);
const warmup = Number(args.warmup || 0);
const links = Number(args.links || 1);
const total = warmup + count;
const url = new URL(args.url);
const address = url.pathname.slice(1);
const { orders, rows } = JSON.parse(fs.readFileSync(args.messages));
const types = rhea.types;
const uuid = (text) => types.wrap_uuid(Buffer.from(text.replaceAll('-', ''), 'hex'));

// What has a type of its own in AMQP is wrapped once, before the clock starts.
for (const order of orders) {
  const properties = order.application_properties;
  properties.due = types.wrap_timestamp(properties.due);
  properties.trace = uuid(properties.trace);
}
for (const row of rows) {
  row.created = types.wrap_timestamp(row.created);
  row.changed = types.wrap_timestamp(row.changed);
  row.session = uuid(row.session);
}

let done = 0;
let from;
let also = {};
const latencies = [];
function start() { from = [process.hrtime.bigint(), process.cpuUsage()]; }
function tick() {
  if (++done === warmup) start();
  return done === total;
}
function report() {
  const cpu = process.cpuUsage(from[1]);
  if (latencies.length) {
    const counted = latencies.slice(warmup).sort((a, b) => a - b);
    also.p50 = counted[Math.floor(counted.length / 2)];
    also.p99 = counted[Math.floor(counted.length * 0.99)];
  }
  console.log(JSON.stringify({
    count, seconds: Number(process.hrtime.bigint() - from[0]) / 1e9,
    cpu_user: cpu.user / 1e6, cpu_sys: cpu.system / 1e6, ...also,
  }));
}
const own = (kind, number) => `${kind}-${String(number).padStart(12, '0')}`;

function order(number) {
  const each = orders[number % orders.length];
  return {
    body: rhea.message.data_section(Buffer.from(JSON.stringify(each.order))),
    message_id: own('order', number), subject: each.subject, reply_to: each.reply_to,
    correlation_id: each.correlation_id, content_type: each.content_type, creation_time: each.creation_time,
    application_properties: { ...each.application_properties }, message_annotations: { ...each.message_annotations },
  };
}
function row(number) {
  return { message_id: own('row', number), body: rows[number % rows.length] };
}
function readOrder(message) {
  const p = message.application_properties, a = message.message_annotations;
  const all = [message.message_id, message.subject, message.reply_to, message.correlation_id, message.content_type,
    message.creation_time, message.body.content, p.region, p.attempt, p.total, p.express, p.due, p.trace,
    a['x-opt-partition-key'], a['x-opt-sequence-number']];
  if (all.some((each) => each === undefined)) throw new Error('wrong order');
}
function readRow(message) {
  if (!message.message_id || Object.keys(message.body).length !== 19) throw new Error('wrong row');
}
function derived(message) {
  return {
    body: message.body, subject: `relayed.${message.subject}`, correlation_id: message.message_id,
    application_properties: { region: message.application_properties.region },
  };
}

const container = rhea.create_container();
const connection = container.connect({
  host: url.hostname, port: Number(url.port), username: 'anonymous', reconnect: false, max_frame_size: 131072,
});
function ended() {
  // the acceptance of the last message is written after its handler returns
  setImmediate(() => {
    report();
    connection.close();
  });
}

let sent = 0;
if (mode === 'one') {
  const body = Buffer.alloc(Number(args.size), 'x');
  let sender, began;
  const next = () => {
    began = process.hrtime.bigint();
    sender.send({ body: rhea.message.data_section(body) });
  };
  connection.open_sender({ target: address, snd_settle_mode: 0, autosettle: true });
  container.once('sendable', (context) => {
    sender = context.sender;
    if (!warmup) start();
    next();
  });
  container.on('accepted', () => {
    latencies.push(Number(process.hrtime.bigint() - began) / 1e3);
    if (tick()) ended();
    else next();
  });
} else if (mode === 'order-send' || mode === 'row-send') {
  const make = mode === 'order-send' ? order : row;
  if (mode === 'order-send') {
    const before = process.cpuUsage();
    for (let i = 0; i < orders.length; i++) { Buffer.from(JSON.stringify(orders[i].order)); own('order', i); }
    const spent = process.cpuUsage(before);
    also.json = (spent.user + spent.system) / orders.length;
  }
  connection.open_sender({ target: address, snd_settle_mode: 0, autosettle: true });
  container.on('sender_open', () => { if (!warmup) start(); });
  container.on('sendable', (context) => {
    while (context.sender.sendable() && sent < total) context.sender.send(make(sent++));
  });
  container.on('accepted', () => { if (tick()) ended(); });
} else if (mode === 'relay') {
  const waiting = [];
  const flying = new Map();
  const sender = connection.open_sender({ target: 'relayed', snd_settle_mode: 0, autosettle: true });
  connection.open_receiver({ source: address, snd_settle_mode: 0, credit_window: 1000, autoaccept: false });
  if (!warmup) start();
  const go = () => {
    while (waiting.length && sender.sendable()) {
      const [message, delivery] = waiting.shift();
      flying.set(sender.send(derived(message)).id, delivery);
    }
  };
  container.on('message', (context) => {
    waiting.push([context.message, context.delivery]);
    go();
  });
  container.on('sendable', go);
  container.on('accepted', (context) => {
    flying.get(context.delivery.id).accept();
    flying.delete(context.delivery.id);
    if (tick()) ended();
  });
} else {
  const window = mode === 'links' ? 10 : 1000;
  for (let i = 0; i < links; i++) {
    connection.open_receiver({ name: `link-${i}`, source: address, snd_settle_mode: 0, credit_window: window });
  }
  container.on('receiver_open', () => { if (!warmup && !from) start(); });
  const read = mode === 'row-receive' ? readRow : readOrder;
  container.on('message', (context) => {
    read(context.message);
    if (tick()) ended();
  });
}
