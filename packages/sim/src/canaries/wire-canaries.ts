/** Bugs of what reads and writes messages: dedup, fencing, identity. */
import { decodeRecord, decodeSnapshot } from "@muster/actors/controller";
import { encodePart, encodeRecord, encodeSnapshot, partsOf } from "@muster/actors/internal";
import { type AnyMessage, type Body, type GroupReceipt, pack, perRole, readPlain } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import type { HeardMessage } from "../net/wire.ts";
import type { SimProcess } from "../world/process.ts";
import { type Canary, repeated } from "./canary.ts";

type Draft = { -readonly [K in keyof AnyMessage]: AnyMessage[K] } & { to?: string };

/** Reads a message, lets a bug change it, and writes it again. Heartbeats, the journal and what is no message pass. */
function edited(message: HeardMessage, change: (draft: Draft) => void): Uint8Array {
  if (!isReadable(message.data)) return message.data;
  const draft = readPlain(message.data) as Draft;
  change(draft);
  return pack(draft);
}

/** The job with snapshots, each in one record. */
function withSnapshots(scenario: Scenario, snapshotRecords = 10): Scenario {
  const { config } = scenario;
  const limits = { ...config.limits, snapshotRecords };
  return { ...scenario, config: { ...config, limits }, recordBytes: 768 * 1024 };
}

/** A snapshot without the timers in it, under a digest that is right. */
function withoutTimers(data: Uint8Array, seq: number): Uint8Array {
  const { part, term, wallMs, by, after } = decodeRecord(seq, data);
  if (!part) return data;
  const bytes = encodeSnapshot({ ...decodeSnapshot(seq, part.data), timers: [] });
  const [forgetful = part] = partsOf(bytes, part.firstSeq, bytes.byteLength);
  return encodePart(term, forgetful, wallMs, by !== undefined && after !== undefined ? { by, after } : undefined);
}

/** A record that says that everything before it is told. */
function allTold(data: Uint8Array, seq: number): Uint8Array {
  const { part, term, wallMs, by, after, events } = decodeRecord(seq, data);
  if (part || by === undefined || after === undefined) return data;
  return encodeRecord(term, events, wallMs, { by, after, told: seq - 1 });
}

/** The first words of controllers wait on their way, and two controllers in a row end before anybody heard anything of them. */
const mutedControllers: readonly Fault[] = [
  ...Array.from(
    { length: 40 },
    (_, i): Fault => ({
      kind: "failpoint",
      point: "controller.before-publish.job.started",
      nth: i + 1,
      action: { type: "delay", delayMs: 60_000 },
    }),
  ),
  ...[20_000, 40_000].map((atMs): Fault => ({ kind: "kill", atMs, node: "controller", isSeen: true })),
];

/** A small job with short time-outs. With more members the brake is pulled: they do not all die in one moment. */
function small(scenario: Scenario): Scenario {
  const { config } = scenario;
  const replicas = { ...perRole(() => 0), policy: 1, rollout: 1 };
  const health = { ...config.health, probeTimeoutMs: 400 };
  const timing = { ...config.timing, heartbeatIntervalMs: 250, suspectAfterMs: 500, deadAfterMs: 1_500 };
  return { ...scenario, config: { ...config, replicas, initReplicas: { policy: 1, rollout: 1 }, health, timing } };
}

/** Canaries on the wire. */
export const wireCanaries: readonly Canary[] = [
  {
    name: "lower-term-obeyed",
    says: "a replica obeys orders of a controller that was replaced",
    profile: "swarm",
    seedsMax: 120,
    make: () => {
      const highest = new Map<SimProcess, number>();
      return {
        wire: {
          hearing: (message) =>
            edited(message, (draft) => {
              if (draft.role !== "controller") return;
              const term = Math.max(highest.get(message.by) ?? 0, draft.term);
              highest.set(message.by, term);
              draft.term = term;
            }),
        },
      };
    },
  },
  {
    name: "incarnation-not-checked",
    says: "a replica obeys orders that were meant for an earlier life",
    profile: "swarm",
    seedsMax: 60,
    make: () => ({
      wire: {
        hearing: (message) =>
          edited(message, (draft) => {
            delete draft.to;
          }),
      },
    }),
  },
  {
    name: "effects-before-journal",
    says: "the controller acts before its decision is stored",
    profile: "quiet",
    seedsMax: 5,
    make: () => ({ wire: { journalsLate: true } }),
  },
  {
    name: "no-compare-and-set",
    says: "a record is appended whoever else appended meanwhile",
    profile: "swarm",
    seedsMax: 60,
    make: () => ({ wire: { ignoresFence: true } }),
  },
  {
    name: "records-purged-early",
    says: "what a snapshot covers is removed before its last part is stored",
    profile: "quiet",
    seedsMax: 5,
    shape: (scenario) => withSnapshots(scenario),
    make: () => ({ wire: { purgesEarly: true } }),
  },
  {
    name: "snapshot-forgets-timers",
    says: "a snapshot does not hold the timers that run",
    profile: "quiet",
    seedsMax: 5,
    shape: (scenario) => withSnapshots(scenario),
    make: () => ({ wire: { writing: withoutTimers } }),
  },
  {
    name: "told-before-stored",
    says: "a record says that all facts of those before it are told, whether or not the broker has them",
    profile: "quiet",
    seedsMax: 10,
    // Without a snapshot, in which the writer would contradict its own records.
    shape: (scenario) => ({ ...withSnapshots(scenario, 10_000), safetyMs: scenario.limitMs / 2 }),
    stage: () => mutedControllers,
    make: () => ({ wire: { writing: allTold } }),
  },
  {
    name: "receipt-counts-wrong",
    says: "a receipt counts trajectories as completed that were aborted, or the other way",
    profile: "quiet",
    seedsMax: 5,
    make: () => ({
      wire: {
        hearing: (message) =>
          edited(message, (draft) => {
            if (draft.kind !== "groups.completed") return;
            const { receipts, ...rest } = draft.body as Body<"groups.completed">;
            const lie = ({ completed, aborted }: GroupReceipt) =>
              aborted > 0 ? { completed: completed + 1, aborted: aborted - 1 } : { completed: 0, aborted: completed };
            draft.body = { ...rest, receipts: receipts.map((one) => ({ ...one, ...lie(one) })) };
          }),
      },
    }),
  },
  {
    name: "last-record-not-read",
    says: "a controller does not read the last record of the journal",
    profile: "kills",
    seedsMax: 20,
    stage: (scenario) =>
      repeated(scenario, 20_000, (atMs) => ({ kind: "kill", atMs, node: "controller", isSeen: true })),
    make: () => ({ wire: { readsShort: true } }),
  },
  {
    name: "outage-not-noticed",
    says: "a controller that was cut off takes its own silence for the death of others",
    profile: "kills",
    seedsMax: 60,
    shape: small,
    stage: (scenario) => repeated(scenario, 25_000, (atMs) => ({ kind: "broker-restart", atMs, forMs: 5_400 })),
    make: () => ({ wire: { hidesOutage: true } }),
  },
  {
    name: "outage-counts-as-silence",
    says: "the time without a broker counts as silence of the others, whatever else goes wrong",
    profile: "kills",
    seedsMax: 60,
    shape: small,
    // Somebody stands still, too: then a death that nobody died is not seen by itself.
    stage: (scenario) => [
      { kind: "pause", atMs: 1_000, forMs: 1_000, node: "rollout-1" },
      ...repeated(scenario, 25_000, (atMs) => ({ kind: "broker-restart" as const, atMs, forMs: 5_400 })),
    ],
    make: () => ({ wire: { hidesOutage: true } }),
  },
  {
    name: "garbage-taken-in",
    says: "what can not be read is taken for the last message of its kind that could",
    profile: "swarm",
    seedsMax: 20,
    stage: (scenario) => repeated(scenario, 3_000, (atMs) => ({ kind: "forgery", atMs, count: 4 })),
    make: () => {
      const last = new Map<string, Uint8Array>();
      let count = 0;
      return {
        wire: {
          hearing: ({ data, subject, by }) => {
            const place = `${by.name} ${subject}`;
            if (isReadable(data)) last.set(place, data);
            const known = last.get(place);
            if (isReadable(data) || !known) return data;
            count += 1;
            return pack({ ...(readPlain(known) as Draft), id: `again-${count}`, seq: 1_000_000 + count });
          },
        },
      };
    },
  },
  {
    name: "sender-not-checked",
    says: "whoever a message says it is from, it is from",
    profile: "swarm",
    seedsMax: 20,
    stage: (scenario) => repeated(scenario, 3_000, (atMs) => ({ kind: "forgery", atMs, count: 4 })),
    make: () => ({
      wire: {
        hearing: (message) => {
          const [, , place, role = "", from = "", ...kind] = message.subject.split(".");
          if (place !== "reports") return message.data;
          return edited(message, (draft) => {
            if (draft.kind === kind.join(".")) Object.assign(draft, { role, from });
          });
        },
      },
    }),
  },
  {
    name: "same-term-twice",
    says: "two controllers that begin at one moment share a term",
    profile: "kills",
    seedsMax: 20,
    stage: (scenario) =>
      repeated(scenario, 10_000, (atMs) => ({ kind: "second-controller", atMs })).flatMap((fault) => [fault, fault]),
    make: () => ({ wire: { ignoresFence: true } }),
  },
];

/** True for bytes that are a message. */
function isReadable(data: Uint8Array): boolean {
  try {
    const message: unknown = readPlain(data);
    return typeof message === "object" && message !== null && "kind" in message;
  } catch {
    return false;
  }
}
