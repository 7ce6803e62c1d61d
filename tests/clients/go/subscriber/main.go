// Topics and subscriptions of gocloud.dev on queues: URL PREFIX acknowledges|refuses|fifo.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/awssnssqs"
	"gocloud.dev/pubsub/batcher"
)

const messages = 60

var ctx, cancel = context.WithTimeout(context.Background(), 2*time.Minute)

func must[T any](answer T, err error) T {
	check(err)
	return answer
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

type program struct {
	sqs    *sqs.Client
	prefix string
}

func main() {
	defer cancel()
	url, prefix, part := os.Args[1], os.Args[2], os.Args[3]
	settings := must(config.LoadDefaultConfig(ctx))
	client := sqs.NewFromConfig(settings, func(o *sqs.Options) {
		o.BaseEndpoint = aws.String(url)
		o.RetryMaxAttempts = 1
	})
	p := program{client, prefix}
	parts := map[string]func() map[string]any{
		"acknowledges": p.acknowledges, "refuses": p.refuses, "fifo": p.fifo,
	}
	must(fmt.Println(string(must(json.Marshal(parts[part]())))))
}

// Sends messages of all kinds at once, which the topic makes batches of, and takes each of them.
func (p program) acknowledges() map[string]any {
	queue := p.create("acknowledged", nil)
	topic := p.topic(queue)
	metadata := map[string]string{"plain": "value", "with space/☕": "any \n text"}
	binary := []byte{0, 1, 0xfe, 0xff}
	sent := make(chan error)
	for n := range messages {
		go func() {
			sent <- topic.Send(ctx, &pubsub.Message{Body: fmt.Appendf(nil, "task %d", n)})
		}()
	}
	for range messages {
		check(<-sent)
	}
	check(topic.Send(ctx, &pubsub.Message{Body: binary, Metadata: metadata}))

	subscription := p.subscription(queue)
	var bodies []string
	var kept map[string]string
	for len(bodies) < messages || kept == nil {
		message := must(subscription.Receive(ctx))
		if bytes.Equal(message.Body, binary) {
			kept = message.Metadata
		} else {
			bodies = append(bodies, string(message.Body))
		}
		message.Ack()
	}
	// It returns when what was acknowledged is deleted.
	check(subscription.Shutdown(ctx))
	check(topic.Shutdown(ctx))
	sort.Strings(bodies)
	absent := p.subscription(queue + "-absent")
	_, err := absent.Receive(ctx)
	return map[string]any{
		"bodies":   bodies,
		"metadata": kept,
		"left":     p.left(queue),
		"absent":   gcerrors.Code(err).String(),
	}
}

// Refuses a message once, and takes and refuses messages that another has deleted meanwhile.
func (p program) refuses() map[string]any {
	queue := p.create("refused", nil)
	topic := p.topic(queue)
	check(topic.Send(ctx, &pubsub.Message{Body: []byte("twice")}))
	subscription := p.subscription(queue)
	var attempts []string
	for len(attempts) < 2 {
		message := must(subscription.Receive(ctx))
		attempts = append(attempts, as(message).Attributes["ApproximateReceiveCount"])
		if len(attempts) == 1 {
			message.Nack()
		} else {
			message.Ack()
		}
	}
	for _, settle := range []func(*pubsub.Message){(*pubsub.Message).Ack, (*pubsub.Message).Nack} {
		check(topic.Send(ctx, &pubsub.Message{Body: []byte("deleted meanwhile")}))
		message := must(subscription.Receive(ctx))
		must(p.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{
			QueueUrl: &queue, ReceiptHandle: as(message).ReceiptHandle,
		}))
		settle(message)
	}
	// A failure to settle would have ended the subscription.
	check(topic.Send(ctx, &pubsub.Message{Body: []byte("last")}))
	last := must(subscription.Receive(ctx))
	last.Ack()
	check(subscription.Shutdown(ctx))
	check(topic.Shutdown(ctx))
	return map[string]any{"attempts": attempts, "last": string(last.Body), "left": p.left(queue)}
}

// Takes the messages of two groups one by one; refuses one, which the rest of its group waits for.
func (p program) fifo() map[string]any {
	queue := p.create("ordered.fifo", map[string]string{
		"FifoQueue": "true", "ContentBasedDeduplication": "true",
	})
	topic := p.topic(queue)
	for _, body := range []string{"a1", "b1", "a2", "b2", "a3"} {
		check(topic.Send(ctx, &pubsub.Message{
			Body: []byte(body),
			BeforeSend: func(as func(any) bool) error {
				var entry *types.SendMessageBatchRequestEntry
				if !as(&entry) {
					return fmt.Errorf("no entry of SendMessageBatch")
				}
				entry.MessageGroupId = aws.String(body[:1])
				return nil
			},
		}))
	}
	// Of two messages of a group in one receive the second would be here when the first is refused.
	one := batcher.Options{MaxBatchSize: 1, MaxHandlers: 1}
	subscription := awssnssqs.OpenSubscription(ctx, p.sqs, queue, &awssnssqs.SubscriptionOptions{
		Raw: true, WaitTime: 20 * time.Second, ReceiveBatcherOptions: one,
	})
	taken := map[string][]string{}
	refused := false
	for len(taken["a"])+len(taken["b"]) < 5 {
		message := must(subscription.Receive(ctx))
		body := string(message.Body)
		if body == "a2" && !refused {
			refused = true
			message.Nack()
			continue
		}
		taken[body[:1]] = append(taken[body[:1]], body)
		message.Ack()
	}
	check(subscription.Shutdown(ctx))
	check(topic.Shutdown(ctx))
	return map[string]any{"taken": taken, "left": p.left(queue)}
}

func as(message *pubsub.Message) types.Message {
	var found types.Message
	if !message.As(&found) {
		panic("no message of the SDK")
	}
	return found
}

func (p program) create(name string, attributes map[string]string) string {
	created := must(p.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String(p.prefix + "-" + name), Attributes: attributes,
	}))
	return *created.QueueUrl
}

func (p program) topic(queue string) *pubsub.Topic {
	return awssnssqs.OpenSQSTopic(ctx, p.sqs, queue, nil)
}

func (p program) subscription(queue string) *pubsub.Subscription {
	return awssnssqs.OpenSubscription(ctx, p.sqs, queue, &awssnssqs.SubscriptionOptions{
		Raw: true, WaitTime: 20 * time.Second,
	})
}

func (p program) left(queue string) []string {
	counts := must(p.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &queue, AttributeNames: []types.QueueAttributeName{"All"},
	})).Attributes
	return []string{
		counts["ApproximateNumberOfMessages"], counts["ApproximateNumberOfMessagesNotVisible"],
	}
}
