/** The streams of a job and what each promises. Both implementations are built from this one table. */

/** The streams of a job. */
export type StreamName = "reports" | "commands" | "journal" | "groups" | "events";

/** Bytes that streams may hold, where it is not what {@link streamRules} says. */
export type StreamBytes = Partial<Readonly<Record<StreamName, number>>>;

/** What a stream keeps, and what happens at its bound. */
export interface StreamRule {
  /** Subject pattern below `muster.<job>.`. */
  readonly subject: string;
  /** `queue`: a message goes when acknowledged. `log`: it stays until purged, too old, or pushed out. */
  readonly retention: "queue" | "log";
  /** At the bound: refuse the new message, or drop the oldest. */
  readonly discard: "new" | "old";
  readonly bytesMax: number;
  /** An operator may have made it with less room: a job goes on when it is full. */
  readonly mayHoldLess?: boolean;
  /** Age at which messages go; absent: never. */
  readonly ageMaxMs?: number;
  /** Single messages can not be removed; only the head can be purged. */
  readonly denyDelete: boolean;
  /** Any replica of the broker may answer a read by sequence. */
  readonly direct: boolean;
  /** Consumers at a time. Unless it is said, a server takes 1,000. */
  readonly consumersMax: number;
  /** Others than the controller write it, who do not trust each other. */
  readonly isShared: boolean;
  /** Messages of one subject at a time, one more is refused: how far a sender that never stops can put itself before the others. Absent: any number. */
  readonly perSubjectMax?: number;
}

const MiB = 1024 ** 2;
const log = { retention: "log", denyDelete: false, direct: false, isShared: false, consumersMax: 1_024 } as const;

/** The rule of every stream. */
export const streamRules: Readonly<Record<StreamName, StreamRule>> = {
  reports: {
    ...log,
    subject: "reports.>",
    retention: "queue",
    discard: "new",
    bytesMax: 128 * MiB,
    isShared: true,
    perSubjectMax: 512,
  },
  commands: {
    ...log,
    subject: "commands.>",
    discard: "old",
    bytesMax: 64 * MiB,
    ageMaxMs: 3_600_000,
    consumersMax: 65_536,
  },
  journal: { ...log, subject: "journal", discard: "new", bytesMax: 1024 * MiB, denyDelete: true },
  groups: {
    ...log,
    subject: "groups.>",
    discard: "new",
    bytesMax: 2048 * MiB,
    direct: true,
    isShared: true,
    mayHoldLess: true,
  },
  events: {
    ...log,
    subject: "events.>",
    discard: "old",
    bytesMax: 128 * MiB,
    ageMaxMs: 7 * 86_400_000,
    consumersMax: 32_768,
  },
};

/** Bound of the bucket of a job's state. */
export const stateBytesMax = 16 * MiB;

/** Every stream name, in a fixed order. */
export const streamNames = Object.keys(streamRules) as readonly StreamName[];

/** Largest message. */
export const messageBytesMax = MiB;

/** Room for headers (message id, expected sequence) beside the largest message. */
export const headersBytesMax = 16 * 1024;

/** How long a message id is remembered; must exceed the longest outbox retry. */
export const duplicateWindowMs = 120_000;

/**
 * Default time after which an unacknowledged message is delivered again: how long the reports that a killed controller held
 * wait for the next one. Receivers must expect a redelivery while they still work on the first.
 */
export const ackWaitDefaultMs = 5_000;

/** Default deadline of one operation. */
export const operationTimeoutMs = 5_000;

/** How long a failed handler's message rests before it is delivered again. */
export const handlerRetryMs = 1_000;

/** The name of a stream on the broker. */
export function brokerStream(job: string, stream: StreamName): string {
  return `muster-${job}-${stream}`;
}

/** The subject pattern of a stream; of the journal, its one subject. */
export function streamSubject(job: string, stream: StreamName): string {
  return `muster.${job}.${streamRules[stream].subject}`;
}

/** Where a process asks for a consumer, which it can not make itself. */
export function deskSubject(job: string, role: string, id: string): string {
  return `muster.${job}.desk.${role}.${id}`;
}

/** Where the broker takes what programs of a role ask of its own API about consumers, which it does not do for them itself. */
export function readersSubject(job: string, role: string): string {
  return `muster.${job}.readers.${role}`;
}

/** The name of the bucket of a job's state. */
export function stateBucket(job: string): string {
  return `muster-${job}`;
}

/** The stream below that bucket. */
export function stateStream(job: string): string {
  return `KV_${stateBucket(job)}`;
}

const keyPattern = /^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$/;

/** True when `key` can be a key of the state store. */
export function isStateKey(key: string): boolean {
  return key.length <= 256 && keyPattern.test(key);
}
