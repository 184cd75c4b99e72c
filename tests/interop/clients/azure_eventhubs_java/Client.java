// Microsoft's Java SDK for Event Hubs, driven by words: see README.md; compiled once. One process for all behaviors.

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventHubProperties;
import com.azure.messaging.eventhubs.models.LastEnqueuedEventProperties;
import com.azure.messaging.eventhubs.PartitionProperties;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.ReceiveOptions;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

public class Client {
  static String connection;

  interface Behavior {
    void run() throws Exception;
  }

  static EventHubClientBuilder builder(String hub) {
    return new EventHubClientBuilder().connectionString(connection, hub).consumerGroup("$Default")
        .retryOptions(new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(60)));
  }

  static void publish(String hub, CreateBatchOptions options, String... bodies) {
    try (EventHubProducerClient producer = builder(hub).buildProducerClient()) {
      EventDataBatch batch = producer.createBatch(options);
      for (String body : bodies) {
        check(batch.tryAdd(new EventData(body)), true);
      }
      producer.send(batch);
    }
  }

  static CreateBatchOptions to(String partition) {
    return new CreateBatchOptions().setPartitionId(partition);
  }

  static List<PartitionEvent> read(String partition, EventPosition position, int count) {
    return read(partition, position, count, new ReceiveOptions());
  }

  static List<PartitionEvent> read(String partition, EventPosition position, int count, ReceiveOptions options) {
    List<PartitionEvent> found = new ArrayList<>();
    try (EventHubConsumerClient consumer = builder("readings").buildConsumerClient()) {
      consumer.receiveFromPartition(partition, count, position, Duration.ofSeconds(60), options).forEach(found::add);
    }
    return found;
  }

  static List<String> bodies(List<PartitionEvent> events) {
    return events.stream().map(event -> event.getData().getBodyAsString()).toList();
  }

  static void check(Object found, Object wanted) {
    if (!String.valueOf(found).equals(String.valueOf(wanted))) {
      throw new AssertionError(found + " is not " + wanted);
    }
  }

  static void properties() {
    try (EventHubProducerClient producer = builder("readings").buildProducerClient()) {
      EventHubProperties hub = producer.getEventHubProperties();
      List<String> partitions = new ArrayList<>();
      hub.getPartitionIds().forEach(partitions::add);
      check(hub.getName() + partitions, "readings[0, 1, 2, 3, 4, 5, 6, 7]");
      PartitionProperties partition = producer.getPartitionProperties("7");
      check(partition.getId() + partition.isEmpty(), "7true");
    }
  }

  static void event() {
    EventData sent = new EventData("x").setMessageId("m").setCorrelationId("c").setContentType("text/plain");
    sent.getProperties().put("color", "red");
    try (EventHubProducerClient producer = builder("readings").buildProducerClient()) {
      producer.send(List.of(sent), new SendOptions().setPartitionId("0"));
    }
    EventData event = read("0", EventPosition.earliest(), 1).get(0).getData();
    check(List.of(event.getBodyAsString(), event.getMessageId(), event.getCorrelationId(), event.getContentType()), "[x, m, c, text/plain]");
    check(event.getProperties().get("color"), "red");
    check(event.getSequenceNumber() + " " + event.getOffsetString() + " " + (event.getEnqueuedTime() != null), "0 0 true");
  }

  static void batch() {
    publish("readings", to("1"), "a", "b", "c");
    check(bodies(read("1", EventPosition.earliest(), 3)), "[a, b, c]");
  }

  static void positions() {
    publish("readings", to("2"), "a", "b", "c");
    List<PartitionEvent> all = read("2", EventPosition.earliest(), 3);
    check(bodies(read("2", EventPosition.fromSequenceNumber(1, true), 1)), "[b]");
    check(bodies(read("2", EventPosition.fromSequenceNumber(1), 1)), "[c]");
    check(bodies(read("2", EventPosition.fromOffsetString(all.get(1).getData().getOffsetString()), 1)), "[c]");
    check(bodies(read("2", EventPosition.fromEnqueuedTime(all.get(0).getData().getEnqueuedTime().minusSeconds(1)), 1)), "[a]");
  }

  static void keys() throws Exception {
    publish("keyed", new CreateBatchOptions().setPartitionKey("amsterdam"), "k1");
    publish("keyed", new CreateBatchOptions().setPartitionKey("amsterdam"), "k2");
    try (EventHubConsumerAsyncClient consumer = builder("keyed").buildAsyncConsumerClient()) {
      List<PartitionEvent> found = consumer.receive(true).take(2).collectList().block(Duration.ofSeconds(60));
      check(bodies(found), "[k1, k2]");
      check(found.get(0).getData().getPartitionKey(), "amsterdam");
      check(found.get(0).getPartitionContext().getPartitionId(), found.get(1).getPartitionContext().getPartitionId());
    }
  }

  static void last() {
    publish("readings", to("5"), "x");
    ReceiveOptions options = new ReceiveOptions().setTrackLastEnqueuedEventProperties(true);
    LastEnqueuedEventProperties last = read("5", EventPosition.earliest(), 1, options).get(0).getLastEnqueuedEventProperties();
    check(last.getSequenceNumber() + " " + last.getOffsetString(), "0 0");
  }

  static void owner() throws Exception {
    publish("readings", to("6"), "x");
    CompletableFuture<Object> began = new CompletableFuture<>();
    CompletableFuture<Throwable> ended = new CompletableFuture<>();
    try (EventHubConsumerAsyncClient first = builder("readings").buildAsyncConsumerClient()) {
      first.receiveFromPartition("6", EventPosition.earliest(), new ReceiveOptions().setOwnerLevel(1L))
          .subscribe(began::complete, ended::complete);
      began.get(60, TimeUnit.SECONDS);
      check(bodies(read("6", EventPosition.earliest(), 1, new ReceiveOptions().setOwnerLevel(2L))), "[x]");
      check(((AmqpException) ended.get(60, TimeUnit.SECONDS)).getErrorCondition(), AmqpErrorCondition.LINK_STOLEN);
    }
  }

  static void missing() {
    try (EventHubProducerClient producer = builder("missing").buildProducerClient()) {
      producer.send(List.of(new EventData("x")));
      throw new AssertionError("it was sent");
    } catch (AmqpException error) {
      check(error.getErrorCondition(), AmqpErrorCondition.NOT_FOUND);
    }
  }

  static String quoted(String text) {
    return "\"" + text.replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ") + "\"";
  }

  public static void main(String[] words) throws Exception {
    connection = words[0];
    List<Thread> running = new ArrayList<>();
    for (int at = 1; at < words.length; at++) {
      String name = words[at];
      Behavior behavior = switch (name) {
        case "properties" -> Client::properties;
        case "event" -> Client::event;
        case "batch" -> Client::batch;
        case "positions" -> Client::positions;
        case "keys" -> Client::keys;
        case "last" -> Client::last;
        case "owner" -> Client::owner;
        case "missing" -> Client::missing;
        default -> throw new IllegalArgumentException(name);
      };
      Thread thread = new Thread(() -> {
        String told = "";
        try {
          behavior.run();
        } catch (Throwable error) {
          told = error.toString();
        }
        synchronized (System.out) {
          System.out.println("{\"behavior\": \"" + name + "\", \"error\": " + quoted(told) + "}");
        }
      });
      thread.start();
      running.add(thread);
    }
    for (Thread thread : running) {
      thread.join();
    }
    System.out.println("{\"done\": true}");
    System.exit(0);
  }
}
