// rhea (JavaScript): a small broker, run by ../../test_rhea_listener.py; addresses are queues, made when first used.
// Released and modified messages come again, rejected ones go to "dead". "forbidden" is refused. A message whose subject
// is "link", "session" or "connection" ends that with an error, and gets no outcome.
'use strict';
const rhea = require('rhea');

const container = rhea.create_container({ id: 'rhea-listener' });
const queues = new Map();
const consumers = new Map(); // address by sender
let made = 0;

const queue = (address) => queues.get(address) || queues.set(address, []).get(address);

function serve(address) {
    const waiting = queue(address);
    for (const [sender, its] of consumers) {
        while (its === address && waiting.length && sender.sendable()) {
            const message = waiting.shift();
            sender.send(message).message = message;
        }
    }
}

function open(link, asked, answer) {
    if (asked && asked.address === 'forbidden') {
        link.close({ condition: 'amqp:unauthorized-access', description: 'not you' });
        return undefined;
    }
    const address = asked.dynamic ? `dynamic-${made++}` : asked.address;
    answer({ address, dynamic: asked.dynamic });
    return address;
}

container.on('receiver_open', ({ receiver }) => {
    receiver.set_source(receiver.source);
    open(receiver, receiver.target, (target) => receiver.set_target(target));
});
container.on('sender_open', ({ sender }) => {
    sender.set_target(sender.target);
    const address = open(sender, sender.source, (source) => sender.set_source(source));
    if (address !== undefined) consumers.set(sender, address);
});
container.on('sender_close', ({ sender }) => consumers.delete(sender));
container.on('disconnected', ({ connection }) => {
    for (const sender of consumers.keys()) if (sender.connection === connection) consumers.delete(sender);
});
container.on('sendable', ({ sender }) => serve(consumers.get(sender)));
container.on('sender_draining', ({ sender }) => {
    serve(consumers.get(sender));
    sender.set_drained(true);
});
container.on('message', ({ message, delivery, receiver, session, connection }) => {
    const ends = { link: receiver, session, connection };
    if (message.subject in ends) {
        ends[message.subject].close({ condition: `test:${message.subject}`, description: 'as was asked for' });
        return;
    }
    const address = receiver.target.address || message.to;
    delivery.accept();
    queue(address).push(message);
    serve(address);
});

// rhea tells of modified as of released, too.
container.on('released', ({ delivery, sender }) => {
    const message = delivery.message;
    if (delivery.remote_state.delivery_failed) message.delivery_count = (message.delivery_count || 0) + 1;
    queue(consumers.get(sender)).unshift(message);
    serve(consumers.get(sender));
});
container.on('rejected', ({ delivery }) => {
    const message = delivery.message;
    message.message_annotations = { 'x-opt-reason': delivery.remote_state.error.condition };
    queue('dead').push(message);
    serve('dead');
});
for (const event of ['error', 'protocol_error']) container.on(event, (why) => { console.error(event, why); process.exit(1); });

const server = container.listen({ host: '127.0.0.1', port: 0, idle_time_out: 20000, receiver_options: { autoaccept: false } });
server.on('listening', () => console.log(server.address().port));
