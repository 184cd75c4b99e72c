// rhea (JavaScript): send and receive. The words and answers are in ../README.md.
'use strict';
const rhea = require('rhea');

const [command, url, address, countText, last] = process.argv.slice(2);
const count = Number(countText);
const say = (line) => console.log(JSON.stringify(line));
const at = new URL(url);
const container = rhea.create_container();

function fail(why) {
    console.error(why);
    process.exit(1);
}

for (const event of ['connection_error', 'session_error', 'sender_error', 'receiver_error', 'error']) {
    container.on(event, (context) => fail(`${event}: ${(context.connection || context).error || context}`));
}
container.on('disconnected', (context) => fail(`disconnected: ${context.error || ''}`));

function finish(connection) {
    say({ done: true });
    container.removeAllListeners('disconnected');
    connection.close();
}

if (command === 'send') {
    const size = Number(last);
    let sent = 0;
    let settled = 0;
    const body = (n) => rhea.message.data_section(Buffer.from(`message ${n}`.padEnd(size, 'x')));
    container.on('sendable', ({ sender }) => {
        while (sent < count && sender.sendable()) {
            sender.send({ message_id: sent, body: body(sent) });
            sent += 1;
        }
    });
    for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
        container.on(outcome, ({ connection }) => {
            say({ outcome });
            settled += 1;
            if (settled === count) finish(connection);
        });
    }
} else {
    let taken = 0;
    container.on('message', ({ message, delivery, connection }) => {
        if (taken === count) return;
        const content = message.body.content;
        say({ body: content.toString().slice(0, 20), size: content.length, deliveryCount: message.delivery_count || 0 });
        taken += 1;
        if (last === 'accept') delivery.accept();
        else if (last === 'reject') delivery.reject({ condition: 'test:rejected', description: 'not wanted' });
        else if (last === 'release') delivery.release();
        else delivery.modified({ delivery_failed: true, undeliverable_here: false });
        if (taken === count) finish(connection);
    });
}

container.on('connection_open', ({ connection }) => {
    if (command === 'send') connection.open_sender(address);
    else connection.open_receiver({ source: address, autoaccept: false, credit_window: 0 }).add_credit(count);
});
// ws:// and wss:// through the package `ws`; the subprotocol is that of the OASIS binding.
const socket = at.protocol.startsWith('ws')
    ? { connection_details: rhea.websocket_connect(require('ws'))(`${at.protocol}//${at.host}${at.pathname}`, ['amqp'], {}) }
    : { host: at.hostname, port: Number(at.port) };
container.connect({
    ...socket,
    username: at.username || undefined,
    password: at.password || undefined,
    reconnect: false,
});
