/**
 * The state of a job in a JetStream key-value bucket, readable with any NATS tool. Written on the stream below the bucket rather
 * than through the client's bucket class, so that each write carries a message id and can be repeated without doubt.
 */
import { randomUUID } from "node:crypto";
import type { StoredMsg } from "@nats-io/jetstream";
import { errors } from "../errors.ts";
import { isStateKey, stateBucket } from "../streams.ts";
import type { StateStore } from "../transport.ts";
import type { Link } from "./link.ts";
import { operationHeader, store } from "./store.ts";
import { isWrongSequence } from "./translate.ts";

const nothing = new Uint8Array(0);

export function openState(link: Link, job: string): StateStore {
  const bucket = stateBucket(job);

  const subjectOf = (key: string): string => {
    if (!isStateKey(key)) throw errors.StateKeyInvalid({ key: key.slice(0, 64) });
    return `$KV.${bucket}.${key}`;
  };
  const last = (subject: string): Promise<StoredMsg | null> =>
    link.call(`reading ${subject}`, () => link.manager.streams.getMessage(`KV_${bucket}`, { last_by_subj: subject }));

  const write = async (subject: string, value: Uint8Array, lastSubjectSequence?: number): Promise<number> => {
    const expect = lastSubjectSequence === undefined ? {} : { expect: { lastSubjectSequence } };
    return (await store(link, { subject, data: value, msgId: randomUUID(), ...expect })).seq;
  };

  return {
    async get(key) {
      const entry = await last(subjectOf(key));
      return entry === null || isRemoved(entry) ? null : { value: entry.data, revision: entry.seq };
    },
    async put(key, value) {
      return await write(subjectOf(key), value);
    },
    async update(key, value, expectedRevision) {
      const subject = subjectOf(key);
      try {
        return await write(subject, value, expectedRevision);
      } catch (error) {
        if (!isWrongSequence(error)) throw error;
        const entry = expectedRevision === 0 ? await last(subject) : null;
        if (entry === null || !isRemoved(entry)) throw errors.StateConflict({ key, expectedRevision }, error);
        return await write(subject, value, entry.seq).catch((cause: unknown) => {
          throw isWrongSequence(cause) ? errors.StateConflict({ key, expectedRevision }, cause) : cause;
        });
      }
    },
    async delete(key) {
      await store(link, { subject: subjectOf(key), data: nothing, msgId: randomUUID(), isRemoval: true });
    },
  };
}

function isRemoved(entry: StoredMsg): boolean {
  return entry.header.has(operationHeader);
}
