// What the scripts of this folder share.
import * as sdk from "@aws-sdk/client-sqs";

// A client that tries each request once.
export const connected = (endpoint, given = {}) =>
  new sdk.SQSClient({ endpoint, maxAttempts: 1, ...given });

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

// Run the parts, of which the command line says where (URL PREFIX), and print their summaries.
export const run = async (parts) => {
  const [url, prefix] = process.argv.slice(2);
  const client = connected(url);
  const summary = {};
  for (const part of parts) summary[part.name] = await part(actionsOf(client), prefix, client);
  client.destroy();
  console.log(JSON.stringify(summary));
};
