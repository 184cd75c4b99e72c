// protonj2 (Java): takes task after task; compiled once. The words and answers are in ../README.md.

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.Session;
import org.apache.qpid.protonj2.client.StreamDelivery;
import org.apache.qpid.protonj2.client.StreamReceiver;
import org.apache.qpid.protonj2.client.StreamSender;
import org.apache.qpid.protonj2.client.StreamSenderMessage;
import org.apache.qpid.protonj2.client.Tracker;
import org.apache.qpid.protonj2.client.DeliveryState;

public class Client {

    static final int PIECE = 64 * 1024;

    static byte[] body(int n, int size) {
        byte[] text = ("message " + n).getBytes(StandardCharsets.UTF_8);
        byte[] body = Arrays.copyOf(text, Math.max(size, text.length));
        Arrays.fill(body, text.length, body.length, (byte) 'x');
        return body;
    }

    static void outcome(Tracker tracker) throws Exception {
        DeliveryState state = tracker.awaitSettlement().remoteState();
        System.out.println("{\"outcome\": \"" + state.getType().name().toLowerCase() + "\"}");
    }

    static void taken(byte[] start, long size, long deliveryCount) {
        String text = new String(start, 0, Math.min(20, start.length), StandardCharsets.UTF_8);
        System.out.println(
            "{\"body\": \"" + text + "\", \"size\": " + size + ", \"deliveryCount\": " + deliveryCount + "}");
    }

    static void send(Connection connection, String address, int count, int size) throws Exception {
        try (Sender sender = connection.openSender(address)) {
            List<Tracker> trackers = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                trackers.add(sender.send(Message.create(body(n, size))));
            }
            for (Tracker tracker : trackers) {
                outcome(tracker);
            }
        }
    }

    static void receive(Connection connection, String address, int count, String end) throws Exception {
        ReceiverOptions options = new ReceiverOptions().creditWindow(0).autoAccept(false);
        try (Receiver receiver = connection.openReceiver(address, options)) {
            receiver.addCredit(count);
            for (int n = 0; n < count; n++) {
                Delivery delivery = receiver.receive();
                Message<byte[]> message = delivery.message();
                taken(message.body(), message.body().length, message.deliveryCount());
                switch (end) {
                    case "accept" -> delivery.accept();
                    case "reject" -> delivery.reject("test:rejected", "not wanted");
                    case "release" -> delivery.release();
                    default -> delivery.modified(true, false);
                }
            }
        }
    }

    static void transact(Connection connection, String address, int count, String end) throws Exception {
        Session session = connection.openSession();
        try (Sender sender = session.openSender(address)) {
            session.beginTransaction();
            List<Tracker> trackers = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                trackers.add(sender.send(Message.create(body(n, 0))));
            }
            for (Tracker tracker : trackers) {
                outcome(tracker);
            }
            if (end.equals("commit")) {
                session.commitTransaction();
            } else {
                session.rollbackTransaction();
            }
        }
        session.close();
    }

    static void streamSend(Connection connection, String address, int count, int size) throws Exception {
        try (StreamSender sender = connection.openStreamSender(address)) {
            for (int n = 0; n < count; n++) {
                StreamSenderMessage message = sender.beginMessage();
                byte[] body = body(n, size);
                try (OutputStream out = message.body()) {
                    for (int at = 0; at < body.length; at += PIECE) {
                        out.write(body, at, Math.min(PIECE, body.length - at));
                        out.flush();
                    }
                }
                message.complete();
                System.out.println(
                    "{\"outcome\": \"" + message.tracker().awaitSettlement().remoteState().getType().name().toLowerCase() + "\"}");
            }
        }
    }

    static void streamReceive(Connection connection, String address, int count) throws Exception {
        try (StreamReceiver receiver = connection.openStreamReceiver(address)) {
            for (int n = 0; n < count; n++) {
                StreamDelivery delivery = receiver.receive();
                InputStream in = delivery.message().body();
                byte[] start = in.readNBytes(20);
                long size = start.length;
                byte[] piece = new byte[PIECE];
                for (int read = in.read(piece); read >= 0; read = in.read(piece)) {
                    size += read;
                }
                taken(start, size, delivery.message().deliveryCount());
                delivery.accept();
            }
        }
    }

    public static void main(String[] none) throws Exception {
        BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String task = tasks.readLine(); task != null; task = tasks.readLine()) {
            run(task.split("\t"));
            System.out.println("{\"done\": true}");
        }
    }

    static void run(String[] words) throws Exception {
        URI at = URI.create(words[1]);
        int count = Integer.parseInt(words[3]);
        ConnectionOptions options = new ConnectionOptions();
        if (at.getUserInfo() != null) {
            String[] login = at.getUserInfo().split(":", 2);
            options.user(login[0]).password(login[1]);
        }
        try (
            org.apache.qpid.protonj2.client.Client client = org.apache.qpid.protonj2.client.Client.create();
            Connection connection = client.connect(at.getHost(), at.getPort(), options)) {
            switch (words[0]) {
                case "send" -> send(connection, words[2], count, Integer.parseInt(words[4]));
                case "receive" -> receive(connection, words[2], count, words[4]);
                case "transact" -> transact(connection, words[2], count, words[4]);
                case "stream-send" -> streamSend(connection, words[2], count, Integer.parseInt(words[4]));
                default -> streamReceive(connection, words[2], count);
            }
        }
    }
}
