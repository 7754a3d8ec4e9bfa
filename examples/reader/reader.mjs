/**
 * `node reader.mjs <file> events|status`: follows the events of a job from its first one, or its status, with the NATS client library and nothing of
 * Muster. The file is what `muster credentials watcher --replica <id>` writes. It goes on until the job has ended, or until it is interrupted.
 */
import { readFileSync } from "node:fs";
import { jetstream } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { connect, jwtAuthenticator } from "@nats-io/transport-node";

const [path = "", what = "events"] = process.argv.slice(2);
const { url, job, credentials } = JSON.parse(readFileSync(path, "utf8"));
const [role = ""] = Object.keys(credentials);
const { seed, replica } = credentials[role];

const connection = await connect({
  servers: url,
  authenticator: jwtAuthenticator(replica.token, new TextEncoder().encode(seed)),
  // Answers come to one's own inbox; no other is open to these credentials.
  inboxPrefix: `_INBOX_${role}.${replica.id}`,
});
const js = jetstream(connection);

if (what === "status") {
  const bucket = await new Kvm(js).open(`muster-${job}`);
  for await (const entry of await bucket.watch({ key: "status" })) {
    process.stdout.write(`${entry.string()}\n`);
    if (entry.json().phase === "stopped") break;
  }
} else {
  const consumer = await js.consumers.get(`muster-${job}-events`);
  for await (const message of await consumer.consume()) {
    process.stdout.write(`${message.string()}\n`);
    if (message.subject.endsWith(".job.ended")) break;
  }
}
await connection.close();
