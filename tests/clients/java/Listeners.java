import io.awspring.cloud.sqs.annotation.SqsListener;
import io.awspring.cloud.sqs.config.SqsBootstrapConfiguration;
import io.awspring.cloud.sqs.config.SqsMessageListenerContainerFactory;
import io.awspring.cloud.sqs.listener.SqsHeaders.MessageSystemAttributes;
import io.awspring.cloud.sqs.listener.acknowledgement.Acknowledgement;
import io.awspring.cloud.sqs.operations.SqsTemplate;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.messaging.Message;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.messaging.support.MessageBuilder;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

/** Listeners of Spring Cloud AWS, which makes their queues where there are none: URL PREFIX. */
@Configuration
@Import(SqsBootstrapConfiguration.class)
public class Listeners {
  private static final int MESSAGES = 50;

  // What each listener was given.
  private final Map<String, BlockingQueue<String>> taken = new ConcurrentHashMap<>();

  public static void main(String[] arguments) throws InterruptedException {
    System.setProperty("endpoint", arguments[0]);
    System.setProperty("prefix", arguments[1]);
    Object summary;
    try (var context = new AnnotationConfigApplicationContext(Listeners.class)) {
      summary =
          context
              .getBean(Listeners.class)
              .summary(arguments[1], context.getBean(SqsAsyncClient.class));
    }
    new PrintStream(System.out, true, StandardCharsets.UTF_8).println(Life.json(summary));
  }

  @Bean
  SqsAsyncClient client() {
    return SqsAsyncClient.builder()
        .endpointOverride(URI.create(System.getProperty("endpoint")))
        .build();
  }

  @Bean
  SqsMessageListenerContainerFactory<Object> defaultSqsListenerContainerFactory(
      SqsAsyncClient client) {
    return SqsMessageListenerContainerFactory.builder()
        .sqsAsyncClient(client)
        // Closing waits for the polls under way.
        .configure(options -> options.pollTimeout(Duration.ofSeconds(2)))
        .build();
  }

  @SqsListener("${prefix}-plain")
  void plain(String body, @Header("flavour") String flavour) {
    take("plain", body + ", " + flavour);
  }

  @SqsListener("${prefix}-batch")
  void batch(List<Message<String>> messages) {
    messages.forEach(message -> take("batch", message.getPayload()));
  }

  @SqsListener(value = "${prefix}-manual", acknowledgementMode = "MANUAL")
  void manual(String body, Acknowledgement acknowledgement) {
    acknowledgement.acknowledge();
    take("manual", body);
  }

  @SqsListener(value = "${prefix}-again", messageVisibilitySeconds = "5")
  void again(
      String body,
      @Header(MessageSystemAttributes.SQS_APPROXIMATE_RECEIVE_COUNT) String receives) {
    take("again", receives);
    if (receives.equals("1")) {
      throw new IllegalStateException("not now");
    }
  }

  @SqsListener(value = "${prefix}-poisoned", messageVisibilitySeconds = "1")
  void poisoned(String body) {
    take("poisoned", body);
    throw new IllegalStateException("never");
  }

  @SqsListener(value = "${prefix}-ordered.fifo", messageVisibilitySeconds = "10")
  void ordered(
      String body,
      @Header(MessageSystemAttributes.SQS_APPROXIMATE_RECEIVE_COUNT) String receives) {
    if (body.equals("a2") && receives.equals("1")) {
      throw new IllegalStateException("not now");
    }
    take("ordered " + body.charAt(0), body);
  }

  private Map<String, Object> summary(String prefix, SqsAsyncClient client)
      throws InterruptedException {
    SqsTemplate template = SqsTemplate.newTemplate(client);
    template.sendMany(
        prefix + "-ordered.fifo",
        Stream.of("a1", "b1", "a2", "b2", "a3", "a4", "b3")
            .map(
                body ->
                    MessageBuilder.withPayload(body)
                        .setHeader(
                            MessageSystemAttributes.SQS_MESSAGE_GROUP_ID_HEADER,
                            body.substring(0, 1))
                        .build())
            .toList());
    for (int n = 0; n < MESSAGES; n += 10) {
      template.sendMany(prefix + "-plain", tasks(n));
      template.sendMany(prefix + "-batch", tasks(n));
    }
    template.send(prefix + "-manual", "by hand");
    template.send(prefix + "-again", "twice");
    String poisoned = prefix + "-poisoned";
    redrive(client, poisoned, prefix + "-dead");
    template.send(poisoned, "poison");

    List<String> buried =
        template
            .receive(r -> r.queue(prefix + "-dead").pollTimeout(Duration.ofSeconds(20)))
            .stream()
            .map(message -> (String) message.getPayload())
            .toList();
    Map<String, Object> summary = new LinkedHashMap<>();
    summary.put("plain", taken("plain", MESSAGES).stream().sorted().toList());
    summary.put("batch", taken("batch", MESSAGES).stream().sorted().toList());
    summary.put("manual", taken("manual", 1));
    summary.put("again", taken("again", 2));
    summary.put("poisoned", taken("poisoned", 2));
    summary.put("buried", buried);
    summary.put("ordered", List.of(taken("ordered a", 4), taken("ordered b", 3)));
    return summary;
  }

  private static void redrive(SqsAsyncClient client, String source, String dead) {
    String arn = "arn:aws:sqs:us-east-1:000000000000:" + dead;
    String policy = Life.json(Map.of("deadLetterTargetArn", arn, "maxReceiveCount", "2"));
    String url = client.getQueueUrl(r -> r.queueName(source)).join().queueUrl();
    client.createQueue(r -> r.queueName(dead)).join();
    client
        .setQueueAttributes(
            r -> r.queueUrl(url).attributes(Map.of(QueueAttributeName.REDRIVE_POLICY, policy)))
        .join();
  }

  private void take(String listener, String what) {
    queue(listener).add(what);
  }

  private List<String> taken(String listener, int count) throws InterruptedException {
    List<String> found = new ArrayList<>();
    while (found.size() < count) {
      String what = queue(listener).poll(60, TimeUnit.SECONDS);
      if (what == null) {
        throw new AssertionError(listener + " was given no more than " + found);
      }
      found.add(what);
    }
    return found;
  }

  private BlockingQueue<String> queue(String listener) {
    return taken.computeIfAbsent(listener, name -> new LinkedBlockingQueue<>());
  }

  private static List<Message<String>> tasks(int first) {
    return IntStream.range(first, first + 10)
        .mapToObj(
            n -> MessageBuilder.withPayload("task " + n).setHeader("flavour", "süß").build())
        .toList();
  }
}
