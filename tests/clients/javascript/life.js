// The life of queues and messages through version 3 of the SDK: URL PREFIX.
import assert from "node:assert/strict";
import { paginateListQueues, QueueDoesNotExist } from "@aws-sdk/client-sqs";
import { actionsOf, connected, counts, run } from "./sqs.js";

const MESSAGE_ATTRIBUTES = {
  Title: { DataType: "String", StringValue: "Grüße ☕" },
  Weight: { DataType: "Number", StringValue: "12.50" },
  Leaf: { DataType: "Binary", BinaryValue: Uint8Array.of(0, 1, 0xfe, 0xff) },
};

const nameOf = (url) => url.slice(url.lastIndexOf("/") + 1);
const nameOfArn = (arn) => arn.slice(arn.lastIndexOf(":") + 1);

async function receive(sqs, QueueUrl, options = {}) {
  const { Messages } = await sqs.ReceiveMessage({
    QueueUrl,
    WaitTimeSeconds: 20,
    MessageSystemAttributeNames: ["All"],
    MessageAttributeNames: ["All"],
    ...options,
  });
  return Messages ?? [];
}

async function remove(sqs, QueueUrl, messages) {
  const Entries = messages.map(({ ReceiptHandle }, n) => ({ Id: String(n), ReceiptHandle }));
  const answer = await sqs.DeleteMessageBatch({ QueueUrl, Entries });
  assert.deepEqual(answer.Successful.map(({ Id }) => Id).sort(), Entries.map(({ Id }) => Id).sort());
  assert.equal(answer.Failed?.length ?? 0, 0);
}

// Receive and delete until there were that many messages, or an empty answer.
async function drain(sqs, queue, count) {
  const found = [];
  while (found.length < count) {
    const messages = await receive(sqs, queue, { MaxNumberOfMessages: 10 });
    if (messages.length === 0) break;
    found.push(...messages);
    await remove(sqs, queue, messages);
  }
  return found;
}

async function attributes(sqs, QueueUrl) {
  return (await sqs.GetQueueAttributes({ QueueUrl, AttributeNames: ["All"] })).Attributes;
}

const shown = ([name, { DataType, StringValue, BinaryValue }]) => [
  name,
  [DataType, BinaryValue ? Buffer.from(BinaryValue).toString("hex") : StringValue],
];

async function single(sqs, QueueUrl) {
  const sent = await sqs.SendMessage({
    QueueUrl,
    MessageBody: "<first> & ☕",
    MessageAttributes: MESSAGE_ATTRIBUTES,
  });
  const [first] = await receive(sqs, QueueUrl);
  assert.deepEqual(await receive(sqs, QueueUrl, { WaitTimeSeconds: 0 }), []);
  await sqs.ChangeMessageVisibility({
    QueueUrl,
    ReceiptHandle: first.ReceiptHandle,
    VisibilityTimeout: 0,
  });
  const [second] = await receive(sqs, QueueUrl);
  await sqs.DeleteMessage({ QueueUrl, ReceiptHandle: second.ReceiptHandle });

  assert.equal(first.MessageId, sent.MessageId);
  assert.equal(second.MessageId, sent.MessageId);
  assert.equal(second.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
  return {
    body: second.Body,
    message_attributes: Object.fromEntries(Object.entries(second.MessageAttributes).map(shown)),
    digest: second.MD5OfMessageAttributes,
    receive_counts: [first, second].map(({ Attributes }) => Attributes.ApproximateReceiveCount),
  };
}

// Receive what comes only while the receiver waits: a short poll would find nothing.
async function delayed(sqs, QueueUrl) {
  await sqs.SendMessage({ QueueUrl, MessageBody: "waited for", DelaySeconds: 1 });
  const [message] = await receive(sqs, QueueUrl);
  await sqs.DeleteMessage({ QueueUrl, ReceiptHandle: message.ReceiptHandle });
  return message.Body;
}

async function batch(sqs, QueueUrl) {
  const Entries = Array.from({ length: 10 }, (_, n) => ({
    Id: `id-${n}`,
    MessageBody: `entry ${n}`,
  }));
  const answer = await sqs.SendMessageBatch({ QueueUrl, Entries });
  assert.deepEqual(answer.Successful.map(({ Id }) => Id).sort(), Entries.map(({ Id }) => Id).sort());
  const refused = await sqs.SendMessageBatch({
    QueueUrl,
    Entries: [
      { Id: "good", MessageBody: "entry 10" },
      { Id: "late", MessageBody: "never", DelaySeconds: 901 },
    ],
  });
  assert.deepEqual(refused.Successful.map(({ Id }) => Id), ["good"]);

  const found = await drain(sqs, QueueUrl, 11);

  return {
    bodies: found.map(({ Body }) => Body).sort(),
    refused: Object.fromEntries(refused.Failed.map(({ Id, SenderFault }) => [Id, SenderFault])),
    left: await counts(sqs, QueueUrl),
  };
}

async function settings(sqs, QueueUrl) {
  await sqs.SetQueueAttributes({ QueueUrl, Attributes: { MessageRetentionPeriod: "3600" } });
  const found = await attributes(sqs, QueueUrl);
  await sqs.TagQueue({ QueueUrl, Tags: { stage: "test + try = @1" } });
  const both = (await sqs.ListQueueTags({ QueueUrl })).Tags;
  await sqs.UntagQueue({ QueueUrl, TagKeys: ["team"] });
  return {
    attributes: [found.VisibilityTimeout, found.MessageRetentionPeriod, nameOfArn(found.QueueArn)],
    tags: [both, (await sqs.ListQueueTags({ QueueUrl })).Tags],
  };
}

async function deadLetter(sqs, source, dead) {
  const policy = {
    deadLetterTargetArn: (await attributes(sqs, dead)).QueueArn,
    maxReceiveCount: "1",
  };
  await sqs.SetQueueAttributes({
    QueueUrl: source,
    Attributes: { RedrivePolicy: JSON.stringify(policy) },
  });
  const sources = await sqs.ListDeadLetterSourceQueues({ QueueUrl: dead });
  assert.deepEqual(sources.queueUrls, [source]);
  const sent = await sqs.SendMessage({ QueueUrl: source, MessageBody: "poison" });

  const [once] = await receive(sqs, source, { VisibilityTimeout: 0 });
  assert.deepEqual(await receive(sqs, source, { WaitTimeSeconds: 1 }), []);
  const [arrived] = await receive(sqs, dead);

  assert.equal(once.MessageId, sent.MessageId);
  assert.equal(arrived.MessageId, sent.MessageId);
  await sqs.DeleteMessage({ QueueUrl: dead, ReceiptHandle: arrived.ReceiptHandle });
  return { body: arrived.Body, source: nameOfArn(arrived.Attributes.DeadLetterQueueSourceArn) };
}

async function purged(sqs, QueueUrl) {
  const Entries = Array.from({ length: 5 }, (_, n) => ({ Id: String(n), MessageBody: "gone" }));
  await sqs.SendMessageBatch({ QueueUrl, Entries });
  await sqs.PurgeQueue({ QueueUrl });
  return (await receive(sqs, QueueUrl, { WaitTimeSeconds: 0, MaxNumberOfMessages: 10 })).length;
}

async function listed(client, prefix) {
  const pages = [];
  for await (const { QueueUrls } of paginateListQueues(
    { client, pageSize: 2 },
    { QueueNamePrefix: prefix },
  )) {
    pages.push(QueueUrls.map(nameOf));
  }
  return pages;
}

async function absent(sqs, QueueName) {
  try {
    await sqs.GetQueueUrl({ QueueName });
  } catch (error) {
    assert.ok(error instanceof QueueDoesNotExist, error);
    return [error.name, error.Code];
  }
  return assert.fail(`${QueueName} exists`);
}

async function standard(sqs, prefix, client) {
  const created = [];
  for (const name of ["main", "source", "dead"]) {
    const { QueueUrl } = await sqs.CreateQueue({
      QueueName: `${prefix}-${name}`,
      Attributes: { VisibilityTimeout: "45" },
      tags: { team: "tea" },
    });
    created.push(QueueUrl);
  }
  const [main, source, dead] = created;
  assert.equal((await sqs.GetQueueUrl({ QueueName: `${prefix}-main` })).QueueUrl, main);
  const summary = {
    single: await single(sqs, main),
    delayed: await delayed(sqs, main),
    batch: await batch(sqs, main),
    settings: await settings(sqs, main),
    dead_letter: await deadLetter(sqs, source, dead),
    after_purge: await purged(sqs, main),
    pages: await listed(client, prefix),
  };
  for (const QueueUrl of created) await sqs.DeleteQueue({ QueueUrl });
  const { QueueUrl } = await sqs.CreateQueue({ QueueName: `${prefix}-left` });
  await sqs.SendMessage({
    QueueUrl,
    MessageBody: "for another client",
    MessageAttributes: MESSAGE_ATTRIBUTES,
  });
  return { ...summary, absent: await absent(sqs, `${prefix}-main`) };
}

async function fifo(sqs, prefix) {
  const { QueueUrl } = await sqs.CreateQueue({
    QueueName: `${prefix}.fifo`,
    Attributes: { FifoQueue: "true", ContentBasedDeduplication: "true" },
  });
  const send = async (body) => {
    const sent = await sqs.SendMessage({ QueueUrl, MessageBody: body, MessageGroupId: body[0] });
    return [sent.MessageId, sent.SequenceNumber];
  };
  const sent = {};
  for (const body of ["a1", "b1", "a2", "b2", "a3"]) sent[body] = await send(body);
  const again = await send("b2");

  // The first of one group, then the first of the other, and then both groups are taken.
  const heads = [...(await receive(sqs, QueueUrl)), ...(await receive(sqs, QueueUrl))];
  const now = { WaitTimeSeconds: 0, MaxNumberOfMessages: 10 };
  const taken = await receive(sqs, QueueUrl, now);
  await remove(sqs, QueueUrl, heads);
  const found = [...heads, ...(await drain(sqs, QueueUrl, 3))];
  const more = await receive(sqs, QueueUrl, now);
  await sqs.DeleteQueue({ QueueUrl });
  return {
    sent,
    again,
    heads: heads.length,
    received: found.map(({ Attributes, Body, MessageId }) => [
      Attributes.MessageGroupId,
      Body,
      MessageId,
      Attributes.SequenceNumber,
    ]),
    while_taken: taken.length,
    more: more.length,
  };
}

async function refused(_sqs, _prefix, client) {
  const { accessKeyId } = await client.config.credentials();
  const credentials = { accessKeyId, secretAccessKey: "wrong" };
  const wrong = connected(process.argv[2], { credentials });
  const error = await actionsOf(wrong).ListQueues({}).then(assert.fail, (refusal) => refusal);
  wrong.destroy();
  return String(error);
}

await run([standard, fifo, refused]);
