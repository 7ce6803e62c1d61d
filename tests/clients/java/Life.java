import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.retries.DefaultRetryStrategy;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.SqsClientBuilder;
import software.amazon.awssdk.services.sqs.model.DeleteMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.ListQueuesRequest;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueDoesNotExistException;
import software.amazon.awssdk.services.sqs.model.ReceiveMessageRequest;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.SqsException;

/** The life of queues and messages through version 2 of the SDK: URL PREFIX. */
public final class Life {
  private static final Map<String, MessageAttributeValue> ATTRIBUTES =
      Map.of(
          "Title",
          MessageAttributeValue.builder().dataType("String").stringValue("Grüße ☕").build(),
          "Weight",
          MessageAttributeValue.builder().dataType("Number").stringValue("12.50").build(),
          "Leaf",
          MessageAttributeValue.builder()
              .dataType("Binary")
              .binaryValue(SdkBytes.fromByteArray(new byte[] {0, 1, (byte) 0xfe, (byte) 0xff}))
              .build());

  private final SqsClient sqs;
  private final String prefix;

  private Life(SqsClient sqs, String prefix) {
    this.sqs = sqs;
    this.prefix = prefix;
  }

  public static void main(String[] arguments) {
    SqsClientBuilder builder =
        SqsClient.builder()
            .endpointOverride(URI.create(arguments[0]))
            .overrideConfiguration(o -> o.retryStrategy(DefaultRetryStrategy.doNotRetry()));
    Map<String, Object> summary = new LinkedHashMap<>();
    try (SqsClient sqs = builder.build()) {
      Life life = new Life(sqs, arguments[1]);
      summary.put("standard", life.standard());
      summary.put("fifo", life.fifo());
    }
    AwsCredentials wrong =
        AwsBasicCredentials.create(System.getenv("AWS_ACCESS_KEY_ID"), "wrong");
    try (SqsClient sqs = builder.credentialsProvider(() -> wrong).build()) {
      sqs.listQueues();
      check(false, "a wrong key is right");
    } catch (SqsException refusal) {
      summary.put("refused", refusal.getMessage());
    }
    new PrintStream(System.out, true, StandardCharsets.UTF_8).println(json(summary));
  }

  private Map<String, Object> standard() {
    List<String> created = Stream.of("main", "source", "dead").map(this::create).toList();
    String main = created.get(0);
    check(sqs.getQueueUrl(r -> r.queueName(prefix + "-main")).queueUrl().equals(main), main);
    Map<String, Object> summary = new LinkedHashMap<>();
    summary.put("single", single(main));
    summary.put("delayed", delayed(main));
    summary.put("batch", batch(main));
    summary.put("settings", settings(main));
    summary.put("dead_letter", deadLetter(created.get(1), created.get(2)));
    summary.put("after_purge", purged(main));
    summary.put("pages", listed());
    created.forEach(queue -> sqs.deleteQueue(r -> r.queueUrl(queue)));
    String left = sqs.createQueue(r -> r.queueName(prefix + "-left")).queueUrl();
    sqs.sendMessage(
        r -> r.queueUrl(left).messageBody("for another client").messageAttributes(ATTRIBUTES));
    summary.put("absent", absent(prefix + "-main"));
    return summary;
  }

  private String create(String name) {
    return sqs.createQueue(
            r ->
                r.queueName(prefix + "-" + name)
                    .attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "45"))
                    .tags(Map.of("team", "tea")))
        .queueUrl();
  }

  private Map<String, Object> single(String queue) {
    String sent =
        sqs.sendMessage(
                r ->
                    r.queueUrl(queue)
                        .messageBody("<first> & ☕")
                        .messageAttributes(ATTRIBUTES))
            .messageId();
    Message first = only(receive(queue));
    check(receive(queue, r -> r.waitTimeSeconds(0)).isEmpty(), "received while in flight");
    sqs.changeMessageVisibility(
        r -> r.queueUrl(queue).receiptHandle(first.receiptHandle()).visibilityTimeout(0));
    Message second = only(receive(queue));
    sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(second.receiptHandle()));

    check(first.messageId().equals(sent) && second.messageId().equals(sent), sent);
    Map<String, Object> shown = new TreeMap<>();
    second.messageAttributes().forEach((n, a) -> shown.put(n, List.of(a.dataType(), value(a))));
    return Map.of(
        "body",
        second.body(),
        "message_attributes",
        shown,
        "digest",
        second.md5OfMessageAttributes(),
        "receive_counts",
        Stream.of(first, second)
            .map(m -> m.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT))
            .toList());
  }

  /** Receives what comes only while the receiver waits: a short poll would find nothing. */
  private String delayed(String queue) {
    sqs.sendMessage(r -> r.queueUrl(queue).messageBody("waited for").delaySeconds(1));
    Message message = only(receive(queue));
    sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
    return message.body();
  }

  private Map<String, Object> batch(String queue) {
    var sent = sqs.sendMessageBatch(r -> r.queueUrl(queue).entries(entries(10, "entry ")));
    check(sent.successful().size() == 10 && sent.failed().isEmpty(), sent);
    var refused =
        sqs.sendMessageBatch(
            r ->
                r.queueUrl(queue)
                    .entries(
                        e -> e.id("good").messageBody("entry 10"),
                        e -> e.id("late").messageBody("never").delaySeconds(901)));
    check(refused.successful().size() == 1, refused);
    check(refused.successful().get(0).id().equals("good"), refused);

    List<Message> found = drain(queue, 11);

    Map<QueueAttributeName, String> counts = attributes(queue);
    return Map.of(
        "bodies",
        found.stream().map(Message::body).sorted().toList(),
        "refused",
        refused.failed().stream().collect(Collectors.toMap(e -> e.id(), e -> e.senderFault())),
        "left",
        Stream.of(
                QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES,
                QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE)
            .map(counts::get)
            .toList());
  }

  private Map<String, Object> settings(String queue) {
    sqs.setQueueAttributes(
        r ->
            r.queueUrl(queue)
                .attributes(Map.of(QueueAttributeName.MESSAGE_RETENTION_PERIOD, "3600")));
    Map<QueueAttributeName, String> found = attributes(queue);
    sqs.tagQueue(r -> r.queueUrl(queue).tags(Map.of("stage", "test + try = @1")));
    Map<String, String> both = sqs.listQueueTags(r -> r.queueUrl(queue)).tags();
    sqs.untagQueue(r -> r.queueUrl(queue).tagKeys("team"));
    return Map.of(
        "attributes",
        List.of(
            found.get(QueueAttributeName.VISIBILITY_TIMEOUT),
            found.get(QueueAttributeName.MESSAGE_RETENTION_PERIOD),
            after(':', found.get(QueueAttributeName.QUEUE_ARN))),
        "tags",
        List.of(both, sqs.listQueueTags(r -> r.queueUrl(queue)).tags()));
  }

  private Map<String, Object> deadLetter(String source, String dead) {
    String policy =
        json(
            Map.of(
                "deadLetterTargetArn",
                attributes(dead).get(QueueAttributeName.QUEUE_ARN),
                "maxReceiveCount",
                "1"));
    sqs.setQueueAttributes(
        r ->
            r.queueUrl(source).attributes(Map.of(QueueAttributeName.REDRIVE_POLICY, policy)));
    List<String> sources = sqs.listDeadLetterSourceQueues(r -> r.queueUrl(dead)).queueUrls();
    check(sources.equals(List.of(source)), sources);
    String sent = sqs.sendMessage(r -> r.queueUrl(source).messageBody("poison")).messageId();

    Message once = only(receive(source, r -> r.visibilityTimeout(0)));
    check(receive(source, r -> r.waitTimeSeconds(1)).isEmpty(), "received once too often");
    Message arrived = only(receive(dead));

    check(once.messageId().equals(sent) && arrived.messageId().equals(sent), sent);
    sqs.deleteMessage(r -> r.queueUrl(dead).receiptHandle(arrived.receiptHandle()));
    String arn =
        arrived.attributes().get(MessageSystemAttributeName.DEAD_LETTER_QUEUE_SOURCE_ARN);
    return Map.of("body", arrived.body(), "source", after(':', arn));
  }

  private int purged(String queue) {
    sqs.sendMessageBatch(r -> r.queueUrl(queue).entries(entries(5, "gone ")));
    sqs.purgeQueue(r -> r.queueUrl(queue));
    return receive(queue, r -> r.waitTimeSeconds(0).maxNumberOfMessages(10)).size();
  }

  private List<List<String>> listed() {
    ListQueuesRequest request =
        ListQueuesRequest.builder().queueNamePrefix(prefix).maxResults(2).build();
    return sqs.listQueuesPaginator(request).stream()
        .map(page -> page.queueUrls().stream().map(url -> after('/', url)).toList())
        .toList();
  }

  private List<String> absent(String name) {
    try {
      sqs.getQueueUrl(r -> r.queueName(name));
    } catch (QueueDoesNotExistException error) {
      // As the documentation names the exception, and so do the other SDKs.
      String type = error.getClass().getSimpleName().replaceFirst("Exception$", "");
      return List.of(type, error.awsErrorDetails().errorCode());
    }
    throw new AssertionError(name + " exists");
  }

  private Map<String, Object> fifo() {
    String queue =
        sqs.createQueue(
                r ->
                    r.queueName(prefix + ".fifo")
                        .attributes(
                            Map.of(
                                QueueAttributeName.FIFO_QUEUE,
                                "true",
                                QueueAttributeName.CONTENT_BASED_DEDUPLICATION,
                                "true")))
            .queueUrl();
    Map<String, Object> sent = new LinkedHashMap<>();
    Stream.of("a1", "b1", "a2", "b2", "a3").forEach(body -> sent.put(body, send(queue, body)));
    List<String> again = send(queue, "b2");

    // The first of one group, then the first of the other, and then both groups are taken.
    List<Message> found = new ArrayList<>(receive(queue));
    found.addAll(receive(queue));
    int heads = found.size();
    Consumer<ReceiveMessageRequest.Builder> now = r -> r.waitTimeSeconds(0).maxNumberOfMessages(10);
    int taken = receive(queue, now).size();
    delete(queue, found);
    found.addAll(drain(queue, 3));
    int more = receive(queue, now).size();
    sqs.deleteQueue(r -> r.queueUrl(queue));
    List<List<String>> received =
        found.stream()
            .map(
                m ->
                    List.of(
                        m.attributes().get(MessageSystemAttributeName.MESSAGE_GROUP_ID),
                        m.body(),
                        m.messageId(),
                        m.attributes().get(MessageSystemAttributeName.SEQUENCE_NUMBER)))
            .toList();
    return Map.of(
        "sent", sent, "again", again, "heads", heads, "received", received, "while_taken", taken,
        "more", more);
  }

  private List<String> send(String queue, String body) {
    var sent =
        sqs.sendMessage(
            r -> r.queueUrl(queue).messageBody(body).messageGroupId(body.substring(0, 1)));
    return List.of(sent.messageId(), sent.sequenceNumber());
  }

  private List<Message> receive(String queue) {
    return receive(queue, r -> {});
  }

  private List<Message> receive(String queue, Consumer<ReceiveMessageRequest.Builder> options) {
    return sqs.receiveMessage(
            r ->
                options.accept(
                    r.queueUrl(queue)
                        .waitTimeSeconds(20)
                        .messageSystemAttributeNames(MessageSystemAttributeName.ALL)
                        .messageAttributeNames("All")))
        .messages();
  }

  /** Receives and deletes until there were that many messages, or an empty answer. */
  private List<Message> drain(String queue, int count) {
    List<Message> found = new ArrayList<>();
    while (found.size() < count) {
      List<Message> messages = receive(queue, r -> r.maxNumberOfMessages(10));
      if (messages.isEmpty()) {
        break;
      }
      found.addAll(messages);
      delete(queue, messages);
    }
    return found;
  }

  private void delete(String queue, List<Message> messages) {
    List<DeleteMessageBatchRequestEntry> entries =
        messages.stream()
            .map(
                m ->
                    DeleteMessageBatchRequestEntry.builder()
                        .id(m.messageId())
                        .receiptHandle(m.receiptHandle())
                        .build())
            .toList();
    var answer = sqs.deleteMessageBatch(r -> r.queueUrl(queue).entries(entries));
    check(answer.successful().size() == entries.size() && answer.failed().isEmpty(), answer);
  }

  private Map<QueueAttributeName, String> attributes(String queue) {
    return sqs.getQueueAttributes(r -> r.queueUrl(queue).attributeNames(QueueAttributeName.ALL))
        .attributes();
  }

  private static List<SendMessageBatchRequestEntry> entries(int count, String body) {
    return IntStream.range(0, count)
        .mapToObj(
            n -> SendMessageBatchRequestEntry.builder().id("id-" + n).messageBody(body + n).build())
        .toList();
  }

  private static String value(MessageAttributeValue attribute) {
    return attribute.binaryValue() == null
        ? attribute.stringValue()
        : HexFormat.of().formatHex(attribute.binaryValue().asByteArray());
  }

  private static String after(char separator, String text) {
    return text.substring(text.lastIndexOf(separator) + 1);
  }

  private static Message only(List<Message> messages) {
    check(messages.size() == 1, messages);
    return messages.get(0);
  }

  private static void check(boolean holds, Object found) {
    if (!holds) {
      throw new AssertionError(found);
    }
  }

  /** Writes maps, lists, numbers and booleans, and texts that hold no control characters. */
  static String json(Object value) {
    if (value instanceof Map<?, ?> map) {
      return map.entrySet().stream()
          .map(e -> json(e.getKey()) + ":" + json(e.getValue()))
          .collect(Collectors.joining(",", "{", "}"));
    }
    if (value instanceof List<?> list) {
      return list.stream().map(Life::json).collect(Collectors.joining(",", "[", "]"));
    }
    if (value instanceof Number || value instanceof Boolean) {
      return value.toString();
    }
    return '"' + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }
}
