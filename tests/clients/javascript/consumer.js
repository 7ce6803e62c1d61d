// Consumers of the package sqs-consumer: URL PREFIX handles|throws.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Consumer } from "sqs-consumer";
import { counts, run } from "./sqs.js";

const MESSAGES = 50;

// Run a consumer until so many messages were handled and deleted, and then until it has stopped.
async function consume(options, expected) {
  const consumer = Consumer.create({ pollingCompleteWaitTimeMs: 60_000, ...options });
  const unexpected = new Promise((_, reject) => consumer.on("error", reject));
  let processed = 0;
  const done = new Promise((resolve) => {
    consumer.on("message_processed", () => {
      processed += 1;
      if (processed === expected) resolve();
    });
  });
  const refusals = [];
  consumer.on("processing_error", (error) => refusals.push(error.message));
  consumer.start();
  await Promise.race([done, unexpected]);
  const stopped = once(consumer, "stopped");
  consumer.stop();
  await Promise.race([stopped, unexpected]);
  return { processed, refusals, status: consumer.status };
}

async function handles(sqs, prefix, client) {
  const { QueueUrl } = await sqs.CreateQueue({ QueueName: `${prefix}-handled` });
  for (let n = 0; n < MESSAGES; n += 10) {
    const Entries = Array.from({ length: 10 }, (_, i) => ({
      Id: String(i),
      MessageBody: `task ${n + i}`,
    }));
    const { Successful } = await sqs.SendMessageBatch({ QueueUrl, Entries });
    assert.equal(Successful.length, 10);
  }
  const bodies = [];
  const handleMessage = async ({ Body }) => void bodies.push(Body);
  const consumed = await consume(
    { queueUrl: QueueUrl, sqs: client, batchSize: 10, handleMessage },
    MESSAGES,
  );
  const left = await counts(sqs, QueueUrl);
  await sqs.DeleteQueue({ QueueUrl });
  return { bodies: bodies.sort(), left, ...consumed };
}

async function throws(sqs, prefix, client) {
  const { QueueUrl } = await sqs.CreateQueue({ QueueName: `${prefix}-thrown` });
  const { MessageId } = await sqs.SendMessage({ QueueUrl, MessageBody: "twice" });
  const attempts = [];
  const handleMessage = async (message) => {
    attempts.push(message.Attributes.ApproximateReceiveCount);
    assert.equal(message.MessageId, MessageId);
    if (attempts.length === 1) throw new Error("not now");
  };
  const consumed = await consume(
    {
      queueUrl: QueueUrl,
      sqs: client,
      visibilityTimeout: 1,
      messageSystemAttributeNames: ["ApproximateReceiveCount"],
      handleMessage,
    },
    1,
  );
  const left = await counts(sqs, QueueUrl);
  await sqs.DeleteQueue({ QueueUrl });
  return { attempts, left, ...consumed };
}

await run([handles, throws]);
