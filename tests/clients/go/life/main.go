// The life of queues and messages through version 2 of the SDK: URL PREFIX.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

var ctx = context.Background()

var attributes = map[string]types.MessageAttributeValue{
	"Title":  {DataType: aws.String("String"), StringValue: aws.String("Grüße ☕")},
	"Weight": {DataType: aws.String("Number"), StringValue: aws.String("12.50")},
	"Leaf":   {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 0xfe, 0xff}},
}

// What an action gave; an error ends the program.
func must[T any](answer T, err error) T {
	if err != nil {
		panic(err)
	}
	return answer
}

func check(holds bool, found any) {
	if !holds {
		panic(fmt.Sprintf("%+v", found))
	}
}

func after(separator, text string) string {
	return text[strings.LastIndex(text, separator)+1:]
}

func only(messages []types.Message) types.Message {
	check(len(messages) == 1, messages)
	return messages[0]
}

type life struct {
	sqs    *sqs.Client
	prefix string
}

func main() {
	url, prefix := os.Args[1], os.Args[2]
	settings := must(config.LoadDefaultConfig(ctx))
	settings.BaseEndpoint = aws.String(url)
	settings.RetryMaxAttempts = 1
	l := life{sqs.NewFromConfig(settings), prefix}
	summary := map[string]any{"standard": l.standard(), "fifo": l.fifo(), "refused": refused(settings)}
	must(fmt.Println(string(must(json.Marshal(summary)))))
}

func refused(settings aws.Config) string {
	key := must(settings.Credentials.Retrieve(ctx))
	key.SecretAccessKey = "wrong"
	settings.Credentials = aws.CredentialsProviderFunc(
		func(context.Context) (aws.Credentials, error) { return key, nil })
	_, err := sqs.NewFromConfig(settings).ListQueues(ctx, nil)
	check(err != nil, "a wrong key is right")
	return err.Error()
}

func (l life) standard() map[string]any {
	var created []string
	for _, name := range []string{"main", "source", "dead"} {
		created = append(created, l.create(name))
	}
	queue := created[0]
	found := must(l.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(l.prefix + "-main")}))
	check(*found.QueueUrl == queue, *found.QueueUrl)
	summary := map[string]any{
		"single":      l.single(queue),
		"delayed":     l.delayed(queue),
		"batch":       l.batch(queue),
		"settings":    l.settings(queue),
		"dead_letter": l.deadLetter(created[1], created[2]),
		"after_purge": l.purged(queue),
		"pages":       l.listed(),
	}
	for _, url := range created {
		must(l.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}))
	}
	left := must(l.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(l.prefix + "-left")}))
	must(l.sqs.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:          left.QueueUrl,
		MessageBody:       aws.String("for another client"),
		MessageAttributes: attributes,
	}))
	summary["absent"] = l.absent(l.prefix + "-main")
	return summary
}

func (l life) create(name string) string {
	created := must(l.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName:  aws.String(l.prefix + "-" + name),
		Attributes: map[string]string{"VisibilityTimeout": "45"},
		Tags:       map[string]string{"team": "tea"},
	}))
	return *created.QueueUrl
}

func (l life) single(queue string) map[string]any {
	sent := must(l.sqs.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:          &queue,
		MessageBody:       aws.String("<first> & ☕"),
		MessageAttributes: attributes,
	}))
	first := only(l.receive(queue))
	check(len(l.receive(queue, at(0))) == 0, "received while in flight")
	must(l.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &queue, ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 0,
	}))
	second := only(l.receive(queue))
	must(l.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{
		QueueUrl: &queue, ReceiptHandle: second.ReceiptHandle,
	}))

	check(*first.MessageId == *sent.MessageId, *first.MessageId)
	check(*second.MessageId == *sent.MessageId, *second.MessageId)
	shown := map[string][]string{}
	for name, attribute := range second.MessageAttributes {
		value := hex.EncodeToString(attribute.BinaryValue)
		if attribute.StringValue != nil {
			value = *attribute.StringValue
		}
		shown[name] = []string{*attribute.DataType, value}
	}
	count := string(types.MessageSystemAttributeNameApproximateReceiveCount)
	return map[string]any{
		"body":               *second.Body,
		"message_attributes": shown,
		"digest":             *second.MD5OfMessageAttributes,
		"receive_counts":     []string{first.Attributes[count], second.Attributes[count]},
	}
}

// Receives what comes only while the receiver waits: a short poll would find nothing.
func (l life) delayed(queue string) string {
	must(l.sqs.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &queue, MessageBody: aws.String("waited for"), DelaySeconds: 1,
	}))
	message := only(l.receive(queue))
	must(l.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{
		QueueUrl: &queue, ReceiptHandle: message.ReceiptHandle,
	}))
	return *message.Body
}

func (l life) batch(queue string) map[string]any {
	sent := l.sendMany(queue, entries(10, "entry "))
	check(len(sent.Successful) == 10 && len(sent.Failed) == 0, sent)
	refused := l.sendMany(queue, []types.SendMessageBatchRequestEntry{
		{Id: aws.String("good"), MessageBody: aws.String("entry 10")},
		{Id: aws.String("late"), MessageBody: aws.String("never"), DelaySeconds: 901},
	})
	check(len(refused.Successful) == 1 && *refused.Successful[0].Id == "good", refused)
	faults := map[string]bool{}
	for _, failed := range refused.Failed {
		faults[*failed.Id] = failed.SenderFault
	}

	var bodies []string
	for _, message := range l.drain(queue, 11) {
		bodies = append(bodies, *message.Body)
	}
	sort.Strings(bodies)

	counts := l.attributes(queue)
	return map[string]any{
		"bodies":  bodies,
		"refused": faults,
		"left": []string{
			counts["ApproximateNumberOfMessages"], counts["ApproximateNumberOfMessagesNotVisible"],
		},
	}
}

func (l life) settings(queue string) map[string]any {
	must(l.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{
		QueueUrl: &queue, Attributes: map[string]string{"MessageRetentionPeriod": "3600"},
	}))
	found := l.attributes(queue)
	must(l.sqs.TagQueue(ctx, &sqs.TagQueueInput{
		QueueUrl: &queue, Tags: map[string]string{"stage": "test + try = @1"},
	}))
	both := must(l.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: &queue}))
	must(l.sqs.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: &queue, TagKeys: []string{"team"}}))
	one := must(l.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: &queue}))
	return map[string]any{
		"attributes": []string{
			found["VisibilityTimeout"], found["MessageRetentionPeriod"], after(":", found["QueueArn"]),
		},
		"tags": []map[string]string{both.Tags, one.Tags},
	}
}

func (l life) deadLetter(source, dead string) map[string]any {
	policy := must(json.Marshal(map[string]string{
		"deadLetterTargetArn": l.attributes(dead)["QueueArn"], "maxReceiveCount": "1",
	}))
	must(l.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{
		QueueUrl: &source, Attributes: map[string]string{"RedrivePolicy": string(policy)},
	}))
	sources := must(l.sqs.ListDeadLetterSourceQueues(ctx, &sqs.ListDeadLetterSourceQueuesInput{
		QueueUrl: &dead,
	})).QueueUrls
	check(len(sources) == 1 && sources[0] == source, sources)
	sent := must(l.sqs.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &source, MessageBody: aws.String("poison"),
	}))

	once := only(l.receive(source))
	// Not by a timeout of zero in the receive, which the SDK leaves out.
	must(l.sqs.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &source, ReceiptHandle: once.ReceiptHandle, VisibilityTimeout: 0,
	}))
	check(len(l.receive(source, at(1))) == 0, "received once too often")
	arrived := only(l.receive(dead))

	check(*once.MessageId == *sent.MessageId, *once.MessageId)
	check(*arrived.MessageId == *sent.MessageId, *arrived.MessageId)
	must(l.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{
		QueueUrl: &dead, ReceiptHandle: arrived.ReceiptHandle,
	}))
	return map[string]any{
		"body":   *arrived.Body,
		"source": after(":", arrived.Attributes["DeadLetterQueueSourceArn"]),
	}
}

func (l life) purged(queue string) int {
	l.sendMany(queue, entries(5, "gone "))
	must(l.sqs.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &queue}))
	return len(l.receive(queue, at(0)))
}

func (l life) listed() [][]string {
	var pages [][]string
	paginator := sqs.NewListQueuesPaginator(l.sqs, &sqs.ListQueuesInput{
		QueueNamePrefix: &l.prefix, MaxResults: aws.Int32(2),
	})
	for paginator.HasMorePages() {
		var names []string
		for _, url := range must(paginator.NextPage(ctx)).QueueUrls {
			names = append(names, after("/", url))
		}
		pages = append(pages, names)
	}
	return pages
}

func (l life) absent(name string) []string {
	_, err := l.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	var absent *types.QueueDoesNotExist
	var answer smithy.APIError
	check(errors.As(err, &absent) && errors.As(err, &answer), err)
	return []string{strings.TrimPrefix(fmt.Sprintf("%T", absent), "*types."), answer.ErrorCode()}
}

func (l life) fifo() map[string]any {
	created := must(l.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String(l.prefix + ".fifo"),
		Attributes: map[string]string{
			"FifoQueue": "true", "ContentBasedDeduplication": "true",
		},
	}))
	queue := *created.QueueUrl
	send := func(body string) []string {
		sent := must(l.sqs.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: &queue, MessageBody: &body, MessageGroupId: aws.String(body[:1]),
		}))
		return []string{*sent.MessageId, *sent.SequenceNumber}
	}
	sent := map[string][]string{}
	for _, body := range []string{"a1", "b1", "a2", "b2", "a3"} {
		sent[body] = send(body)
	}
	again := send("b2")

	// The first of one group, then the first of the other, and then both groups are taken.
	found := append(l.receive(queue), l.receive(queue)...)
	heads := len(found)
	taken := len(l.receive(queue, at(0)))
	l.delete(queue, found)
	found = append(found, l.drain(queue, 3)...)
	more := len(l.receive(queue, at(0)))
	must(l.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &queue}))
	var received [][]string
	for _, m := range found {
		received = append(received, []string{
			m.Attributes["MessageGroupId"], *m.Body, *m.MessageId, m.Attributes["SequenceNumber"],
		})
	}
	return map[string]any{
		"sent": sent, "again": again, "heads": heads, "received": received,
		"while_taken": taken, "more": more,
	}
}

func entries(count int, body string) []types.SendMessageBatchRequestEntry {
	var found []types.SendMessageBatchRequestEntry
	for n := range count {
		found = append(found, types.SendMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint("id-", n)), MessageBody: aws.String(fmt.Sprint(body, n)),
		})
	}
	return found
}

func (l life) sendMany(
	queue string, entries []types.SendMessageBatchRequestEntry,
) *sqs.SendMessageBatchOutput {
	return must(l.sqs.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: &queue, Entries: entries,
	}))
}

// Asks for ten messages, and waits so many seconds for the first.
func at(wait int32) func(*sqs.ReceiveMessageInput) {
	return func(r *sqs.ReceiveMessageInput) { r.WaitTimeSeconds, r.MaxNumberOfMessages = wait, 10 }
}

func (l life) receive(queue string, options ...func(*sqs.ReceiveMessageInput)) []types.Message {
	request := &sqs.ReceiveMessageInput{
		QueueUrl:                    &queue,
		WaitTimeSeconds:             20,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		MessageAttributeNames:       []string{"All"},
	}
	for _, option := range options {
		option(request)
	}
	return must(l.sqs.ReceiveMessage(ctx, request)).Messages
}

// Receives and deletes until there were that many messages, or an empty answer.
func (l life) drain(queue string, count int) []types.Message {
	var found []types.Message
	for len(found) < count {
		messages := l.receive(queue, at(20))
		if len(messages) == 0 {
			break
		}
		found = append(found, messages...)
		l.delete(queue, messages)
	}
	return found
}

func (l life) delete(queue string, messages []types.Message) {
	var entries []types.DeleteMessageBatchRequestEntry
	for n, message := range messages {
		entries = append(entries, types.DeleteMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint(n)), ReceiptHandle: message.ReceiptHandle,
		})
	}
	answer := must(l.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
		QueueUrl: &queue, Entries: entries,
	}))
	check(len(answer.Successful) == len(entries) && len(answer.Failed) == 0, answer)
}

func (l life) attributes(queue string) map[string]string {
	return must(l.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &queue, AttributeNames: []types.QueueAttributeName{"All"},
	})).Attributes
}
