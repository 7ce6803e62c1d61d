// What the scripts of this folder share.
import * as sdk from "@aws-sdk/client-sqs";

// A client that tries each request once.
export const connected = (url) => new sdk.SQSClient({ endpoint: url, maxAttempts: 1 });

// Each action as a function of its parameters: the SDK names its commands after the actions.
export const actionsOf = (client) =>
  new Proxy(
    {},
    { get: (_, action) => (parameters) => client.send(new sdk[`${action}Command`](parameters)) },
  );

export const counts = async (sqs, QueueUrl) => {
  const { Attributes } = await sqs.GetQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
  return [Attributes.ApproximateNumberOfMessages, Attributes.ApproximateNumberOfMessagesNotVisible];
};

// Run the part that the command line names (URL PREFIX PART), and print its summary.
export const run = async (parts) => {
  const [url, prefix, part] = process.argv.slice(2);
  const client = connected(url);
  const summary = await parts[part](actionsOf(client), prefix, client);
  client.destroy();
  console.log(JSON.stringify(summary));
};
