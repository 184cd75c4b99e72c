// qpid-client (Java, JMS over AMQP 0-9, 0-9-1 and 0-10): takes task after task; compiled once. The words and answers are in ../README.md.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.client.AMQAnyDestination;
import org.apache.qpid.client.AMQConnection;
import org.apache.qpid.client.AMQConnectionFactory;

public class Client {

    static byte[] body(int n, int size) {
        byte[] text = ("message " + n).getBytes(StandardCharsets.UTF_8);
        byte[] body = Arrays.copyOf(text, Math.max(size, text.length));
        Arrays.fill(body, text.length, body.length, (byte) 'x');
        return body;
    }

    static BytesMessage message(Session session, int n, int size) throws Exception {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body(n, size));
        message.setIntProperty("n", n);
        message.setStringProperty("text", "t" + n);
        message.setJMSCorrelationID("c" + n);
        return message;
    }

    static void taken(Message message) throws Exception {
        byte[] octets;
        if (message instanceof TextMessage) {
            octets = ((TextMessage) message).getText().getBytes(StandardCharsets.UTF_8);
        } else {
            BytesMessage bytes = (BytesMessage) message;
            octets = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(octets);
        }
        String start = new String(octets, 0, Math.min(20, octets.length), StandardCharsets.UTF_8);
        System.out.println("{\"body\": \"" + start + "\", \"size\": " + octets.length
            + ", \"redelivered\": " + message.getJMSRedelivered()
            + ", \"n\": " + (message.propertyExists("n") ? message.getLongProperty("n") : -1)
            + ", \"correlation\": \"" + message.getJMSCorrelationID() + "\"}");
    }

    public static void main(String[] words) {
        try {
            BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String task = tasks.readLine(); task != null; task = tasks.readLine()) {
                run(task.split("\t"));
                System.out.println("{\"done\": true}");
            }
            System.exit(0);
        } catch (Throwable error) { // its threads would keep the program alive
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void run(String[] words) throws Exception {
        String version = words[0];
        String url = words[2];
        String address = words[3];
        int count = Integer.parseInt(words[4]);
        String how = words[5];
        System.setProperty("qpid.amqp.version", version); // read for each connection
        Connection connection = new AMQConnectionFactory(url).createConnection();
        String spoken = ((AMQConnection) connection).getProtocolVersion().toString();
        if (!spoken.equals(version))
            throw new IllegalStateException("it speaks " + spoken + " and not " + version);
        boolean transacted = words[1].equals("transact");
        boolean receives = words[1].equals("receive");
        Session session = connection.createSession(transacted || how.equals("rollback"),
            receives && how.equals("accept") ? Session.CLIENT_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE);
        // In the older versions it finds a queue of other brokers than Qpid's only by declaring it.
        boolean declares = !receives || !version.equals("0-10");
        AMQAnyDestination queue = new AMQAnyDestination(
            "ADDR:" + address + (declares ? ";{create: always, node: {type: queue}}" : ""));
        connection.start();
        if (receives) {
            String selector = words.length > 6 ? words[6] : null;
            MessageConsumer consumer = session.createConsumer(queue, selector);
            Message message = null;
            for (int i = 0; i < count; i++) {
                message = consumer.receive(10000);
                taken(message);
            }
            if (how.equals("accept")) {
                message.acknowledge();
            } else if (how.equals("rollback")) {
                session.rollback();
            }
        } else {
            MessageProducer producer = session.createProducer(queue);
            for (int n = 0; n < count; n++) {
                producer.send(message(session, n, transacted ? 9 : Integer.parseInt(how)));
                if (!transacted) {
                    System.out.println("{\"outcome\": \"accepted\"}");
                }
            }
            if (how.equals("commit")) {
                session.commit();
            } else if (how.equals("rollback")) {
                session.rollback();
            }
        }
        connection.close();
    }
}
