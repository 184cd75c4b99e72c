// RabbitMQ's Java client for AMQP 1.0 (com.rabbitmq.client:amqp-client), driven by words: see README.md; compiled once.

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

public class Client {
  static void print(String name, Object value) {
    System.out.println("{\"" + name + "\": " + (value instanceof String ? "\"" + value + "\"" : value) + "}");
  }

  static String publish(Publisher publisher, String body) throws InterruptedException {
    BlockingQueue<String> outcome = new ArrayBlockingQueue<>(1);
    publisher.publish(publisher.message(body.getBytes()), context -> outcome.add(context.status().name()));
    return outcome.poll(30, TimeUnit.SECONDS);
  }

  static void topology(Connection connection, String name, int count) throws InterruptedException {
    String exchange = name + ".e";
    try (Management management = connection.management()) {
      management.exchange(exchange).type(Management.ExchangeType.TOPIC).declare();
      management.queue(name).quorum().deliveryLimit(5).queue().declare();
      management.binding().sourceExchange(exchange).destinationQueue(name).key("a.#").argument("x", "y").bind();
      management.binding().sourceExchange(exchange).destinationQueue(name).key("b").bind();
      try (Publisher publisher = connection.publisherBuilder().exchange(exchange).key("a.b").build()) {
        for (int number = 0; number < count; number++) {
          print("published", publish(publisher, "message " + number));
        }
      }
      print("type", management.queueInfo(name).type().name());
      print("messages", management.queueInfo(name).messageCount());
      BlockingQueue<String> bodies = new ArrayBlockingQueue<>(count);
      try (Consumer consumer = connection.consumerBuilder().queue(name).initialCredits(1)
          .messageHandler((context, message) -> {
            context.accept();
            bodies.add(new String(message.body()));
          }).build()) {
        for (int number = 0; number < count; number++) {
          print("received", bodies.poll(30, TimeUnit.SECONDS));
        }
      }
      management.unbind().sourceExchange(exchange).destinationQueue(name).key("a.#").argument("x", "y").unbind();
      management.unbind().sourceExchange(exchange).destinationQueue(name).key("b").unbind();
      try (Publisher publisher = connection.publisherBuilder().exchange(exchange).key("a.b").build()) {
        print("unbound", publish(publisher, "nobody's"));
      }
      try (Publisher publisher = connection.publisherBuilder().queue(name).build()) {
        print("direct", publish(publisher, "once more"));
      }
      print("purged", management.queuePurge(name).messageCount());
      try {
        management.queue(name).classic().queue().declare();
        print("otherwise", "taken");
      } catch (AmqpException error) {
        print("otherwise", "refused");
      }
      management.exchangeDelete(exchange);
      management.queueDelete(name);
      try {
        management.queueInfo(name);
        print("deleted", "found");
      } catch (AmqpException.AmqpEntityDoesNotExistException error) {
        print("deleted", "gone");
      }
    }
  }

  public static void main(String[] words) throws Exception {
    try (Environment environment = new AmqpEnvironmentBuilder().build();
        Connection connection = environment.connectionBuilder().uri(words[1]).build()) {
      topology(connection, words[2], Integer.parseInt(words[3]));
    }
    System.out.println("{\"done\": true}");
    System.exit(0);
  }
}
