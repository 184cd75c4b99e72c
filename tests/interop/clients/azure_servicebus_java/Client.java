// Microsoft's Java SDK for Service Bus, driven by words: see README.md; compiled once. One process for all behaviors.

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.net.URI;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;

public class Client {
  static String connection;
  static ServiceBusClientBuilder shared;

  interface Behavior {
    void run() throws Exception;
  }

  static ServiceBusClientBuilder builder() {
    return new ServiceBusClientBuilder().connectionString(connection)
        .retryOptions(new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(20)));
  }

  static ServiceBusSenderClient sender(String queue) {
    return builder().sender().queueName(queue).buildClient();
  }

  static ServiceBusReceiverClient receiver(String queue) {
    return builder().receiver().queueName(queue).disableAutoComplete().buildClient();
  }

  static List<ServiceBusReceivedMessage> receive(ServiceBusReceiverClient receiver, int count) {
    List<ServiceBusReceivedMessage> found = new ArrayList<>();
    long end = System.nanoTime() + 20_000_000_000L;
    while (found.size() < count && System.nanoTime() < end) {
      receiver.receiveMessages(count - found.size(), Duration.ofSeconds(5)).forEach(found::add);
    }
    return found;
  }

  static List<String> peek(String queue) {
    try (ServiceBusReceiverClient receiver = receiver(queue)) {
      List<String> found = new ArrayList<>();
      receiver.peekMessages(20).forEach(message -> found.add(message.getBody().toString()));
      return found;
    }
  }

  static void check(Object found, Object wanted) {
    if (!String.valueOf(found).equals(String.valueOf(wanted))) {
      throw new AssertionError(found + " is not " + wanted);
    }
  }

  static void settle() {
    String queue = "settled";
    try (ServiceBusSenderClient sender = sender(queue); ServiceBusReceiverClient receiver = receiver(queue)) {
      for (String body : List.of("complete", "abandon", "defer", "dead")) {
        sender.sendMessage(new ServiceBusMessage(body).setMessageId(body));
      }
      List<ServiceBusReceivedMessage> found = receive(receiver, 4);
      receiver.complete(found.get(0));
      receiver.abandon(found.get(1));
      receiver.defer(found.get(2));
      receiver.deadLetter(found.get(3), new DeadLetterOptions().setDeadLetterReason("bad"));
      ServiceBusReceivedMessage again = receive(receiver, 1).get(0);
      check(again.getBody() + " " + again.getDeliveryCount(), "abandon 1");
      receiver.complete(again);
      ServiceBusReceivedMessage deferred = receiver.receiveDeferredMessage(found.get(2).getSequenceNumber());
      receiver.complete(deferred);
      check(peek(queue), "[]");
    }
    try (ServiceBusReceiverClient dead = builder().receiver().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE)
        .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
      check(receive(dead, 1).get(0).getDeadLetterReason(), "bad");
    }
  }

  static void sessions() {
    try (ServiceBusSenderClient sender = sender("sessions")) {
      for (int number = 0; number < 4; number++) {
        sender.sendMessage(new ServiceBusMessage("m" + number).setSessionId(number % 2 == 0 ? "even" : "odd"));
      }
    }
    try (ServiceBusSessionReceiverClient sessions = builder().sessionReceiver().queueName("sessions")
        .disableAutoComplete().buildClient(); ServiceBusReceiverClient odd = sessions.acceptSession("odd")) {
      List<ServiceBusReceivedMessage> found = receive(odd, 2);
      check(found.get(0).getBody() + " " + found.get(1).getBody(), "m1 m3");
      odd.setSessionState("half".getBytes());
      check(new String(odd.getSessionState()), "half");
      try (ServiceBusReceiverClient next = sessions.acceptNextSession()) {
        check(next.getSessionId(), "even");
      }
    }
  }

  static void schedule() {
    try (ServiceBusSenderClient sender = sender("scheduled"); ServiceBusReceiverClient receiver = receiver("scheduled")) {
      long number = sender.scheduleMessage(new ServiceBusMessage("later"), OffsetDateTime.now().plusHours(1));
      check(receiver.peekMessage().getSequenceNumber(), number);
      sender.cancelScheduledMessage(number);
      check(peek("scheduled"), "[]");
    }
  }

  static void described() {
    OffsetDateTime moment = OffsetDateTime.parse("2026-11-28T14:00:00Z");
    try (ServiceBusSenderClient sender = sender("described"); ServiceBusReceiverClient receiver = receiver("described")) {
      ServiceBusMessage message = new ServiceBusMessage("x");
      message.getApplicationProperties().put("span", Duration.ofMinutes(90));
      message.getApplicationProperties().put("moment", moment);
      message.getApplicationProperties().put("place", URI.create("https://example.org/a"));
      sender.sendMessage(message);
      ServiceBusReceivedMessage found = receive(receiver, 1).get(0);
      check(found.getApplicationProperties().get("span"), Duration.ofMinutes(90));
      check(((OffsetDateTime) found.getApplicationProperties().get("moment")).isEqual(moment), true);
      check(found.getApplicationProperties().get("place"), "https://example.org/a");
    }
  }

  static void annotations() {
    String queue = "annotated";
    try (ServiceBusSenderClient sender = sender(queue); ServiceBusReceiverClient receiver = receiver(queue)) {
      ServiceBusMessage message = new ServiceBusMessage("x");
      message.getRawAmqpMessage().getDeliveryAnnotations().put("own", "x");
      sender.sendMessage(message);
      check(receive(receiver, 1).get(0).getRawAmqpMessage().getDeliveryAnnotations().get("own"), "x");
    }
  }

  static void sentIn(boolean commits) {
    String queue = "sent." + commits;
    try (ServiceBusSenderClient sender = sender(queue)) {
      ServiceBusTransactionContext transaction = sender.createTransaction();
      sender.sendMessage(new ServiceBusMessage("one"), transaction);
      sender.sendMessages(List.of(new ServiceBusMessage("two"), new ServiceBusMessage("three")), transaction);
      check(peek(queue), "[]");
      if (commits) {
        sender.commitTransaction(transaction);
      } else {
        sender.rollbackTransaction(transaction);
      }
      check(peek(queue), commits ? "[one, two, three]" : "[]");
    }
  }

  static void settledIn(boolean commits) {
    String queue = "outcomes." + commits;
    try (ServiceBusSenderClient sender = sender(queue); ServiceBusReceiverClient receiver = receiver(queue)) {
      for (String body : List.of("complete", "abandon", "defer", "dead")) {
        sender.sendMessage(new ServiceBusMessage(body));
      }
      List<ServiceBusReceivedMessage> found = receive(receiver, 4);
      ServiceBusTransactionContext transaction = receiver.createTransaction();
      receiver.complete(found.get(0), new CompleteOptions().setTransactionContext(transaction));
      receiver.abandon(found.get(1), new AbandonOptions().setTransactionContext(transaction));
      receiver.defer(found.get(2), new DeferOptions().setTransactionContext(transaction));
      receiver.deadLetter(found.get(3), new DeadLetterOptions().setTransactionContext(transaction));
      check(peek(queue), "[complete, abandon, defer, dead]");
      if (commits) {
        receiver.commitTransaction(transaction);
        check(peek(queue), "[abandon, defer]");
        check(receive(receiver, 1).get(0).getDeliveryCount(), 1);
      } else {
        receiver.rollbackTransaction(transaction);
        check(peek(queue), "[complete, abandon, defer, dead]");
      }
    }
  }

  static void scheduledIn(boolean commits) {
    String queue = "later." + commits;
    try (ServiceBusSenderClient sender = sender(queue)) {
      ServiceBusTransactionContext transaction = sender.createTransaction();
      OffsetDateTime then = OffsetDateTime.now().plusHours(1);
      long number = sender.scheduleMessage(new ServiceBusMessage("one"), then, transaction);
      List<ServiceBusMessage> others = List.of(new ServiceBusMessage("two"), new ServiceBusMessage("three"));
      List<Long> numbers = new ArrayList<>();
      sender.scheduleMessages(others, then, transaction).forEach(numbers::add);
      check(number + " " + numbers + " " + peek(queue), "1 [2, 3] []");
      if (commits) {
        sender.commitTransaction(transaction);
        check(peek(queue), "[one, two, three]");
        sender.cancelScheduledMessages(List.of(1L, 2L, 3L));
      } else {
        sender.rollbackTransaction(transaction);
      }
      check(peek(queue), "[]");
      check(sender.scheduleMessage(new ServiceBusMessage("next"), then), 4);
    }
  }

  static void deferredIn(boolean commits) {
    String queue = "deferred." + commits;
    try (ServiceBusSenderClient sender = sender(queue); ServiceBusReceiverClient receiver = receiver(queue)) {
      List<Long> numbers = new ArrayList<>();
      for (String body : List.of("complete", "abandon", "defer", "dead")) {
        sender.sendMessage(new ServiceBusMessage(body));
      }
      for (ServiceBusReceivedMessage message : receive(receiver, 4)) {
        receiver.defer(message);
        numbers.add(message.getSequenceNumber());
      }
      List<ServiceBusReceivedMessage> found = new ArrayList<>();
      receiver.receiveDeferredMessageBatch(numbers).forEach(found::add);
      ServiceBusTransactionContext transaction = receiver.createTransaction();
      receiver.complete(found.get(0), new CompleteOptions().setTransactionContext(transaction));
      receiver.abandon(found.get(1), new AbandonOptions().setTransactionContext(transaction));
      receiver.defer(found.get(2), new DeferOptions().setTransactionContext(transaction));
      receiver.deadLetter(found.get(3), new DeadLetterOptions().setTransactionContext(transaction));
      check(peek(queue), "[complete, abandon, defer, dead]");
      if (commits) {
        receiver.commitTransaction(transaction);
        check(peek(queue), "[abandon, defer]");
        check(receiver.receiveDeferredMessage(numbers.get(1)).getBody(), "abandon");
      } else {
        receiver.rollbackTransaction(transaction);
        check(peek(queue), "[complete, abandon, defer, dead]");
        check(receiver.receiveDeferredMessageBatch(numbers).stream().count(), 0);  // they are locked
      }
    }
  }

  static void acrossEntities(boolean commits) {
    ServiceBusClientBuilder builder = builder().enableCrossEntityTransactions();
    String from = "from." + commits, to = "to." + commits;
    try (ServiceBusSenderClient first = sender(from)) {
      first.sendMessage(new ServiceBusMessage("work"));
    }
    try (ServiceBusReceiverClient receiver = builder.receiver().queueName(from).disableAutoComplete().buildClient();
        ServiceBusSenderClient sender = builder.sender().queueName(to).buildClient()) {
      ServiceBusReceivedMessage work = receive(receiver, 1).get(0);
      ServiceBusTransactionContext transaction = receiver.createTransaction();
      receiver.complete(work, new CompleteOptions().setTransactionContext(transaction));
      sender.sendMessage(new ServiceBusMessage("result"), transaction);
      check(peek(from) + " " + peek(to), "[work] []");
      if (commits) {
        receiver.commitTransaction(transaction);
      } else {
        receiver.rollbackTransaction(transaction);
      }
      check(peek(from) + " " + peek(to), commits ? "[] [result]" : "[work] []");
    }
  }

  static void unknownTransaction() {
    try (ServiceBusSenderClient sender = sender("unknown")) {
      ServiceBusTransactionContext transaction = sender.createTransaction();
      sender.rollbackTransaction(transaction);
      try {
        sender.sendMessage(new ServiceBusMessage("late"), transaction);
      } catch (ServiceBusException error) {
        // 7.17.15 does not tell of this rejection.
      }
      check(peek("unknown"), "[]");
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
        case "settle" -> Client::settle;
        case "sessions" -> Client::sessions;
        case "schedule" -> Client::schedule;
        case "described" -> Client::described;
        case "annotations" -> Client::annotations;
        case "send-and-commit" -> () -> sentIn(true);
        case "send-and-roll-back" -> () -> sentIn(false);
        case "settle-and-commit" -> () -> settledIn(true);
        case "settle-and-roll-back" -> () -> settledIn(false);
        case "schedule-and-commit" -> () -> scheduledIn(true);
        case "schedule-and-roll-back" -> () -> scheduledIn(false);
        case "deferred-and-commit" -> () -> deferredIn(true);
        case "deferred-and-roll-back" -> () -> deferredIn(false);
        case "across-and-commit" -> () -> acrossEntities(true);
        case "across-and-roll-back" -> () -> acrossEntities(false);
        case "transaction-over" -> Client::unknownTransaction;
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
