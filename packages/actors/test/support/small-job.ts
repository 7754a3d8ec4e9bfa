/** A whole job in this process: controllers and replicas as tests ask for them, on one broker in memory. */

import { type Clock, withDeadline } from "@muster/base";
import { dataPlaneActivity } from "@muster/collectives";
import { planOf, type Rules } from "@muster/machines/controller";
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  type JobConfig,
  type KindOf,
  type Message,
  subjectsOf,
} from "@muster/protocol";
import { makeTempDirectory } from "@muster/testkit";
import type { Transport } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import { type Controller, startController } from "../../src/controller/index.ts";
import { type Replica, type ReplicaEnd, type Role, runReplica } from "../../src/index.ts";
import { type Replayed, replayJournal } from "../../src/internal.ts";
import { clock, host, processesOn, type TestProcess, type Wire } from "./environment.ts";
import { checkpointRole, policyRole, rolloutRole } from "./roles.ts";
import { smallConfig } from "./small-config.ts";

const waitMs = 20_000;
const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);

/** The time of the broker runs ten times as fast, so that what a controller had not acknowledged at its end soon comes to the next one. */
const hastyClock: Clock = {
  now: () => clock.now() * 10,
  after: (delayMs, run) => clock.after(delayMs / 10, run),
};

/** A public event as watchers get it. */
export type EventOf<K extends KindOf<"event">> = Message<K>;

/** A replica and its process. */
export interface TestReplica extends Replica, TestProcess {
  readonly id: string;
}

/** A job under test. */
export interface SmallJob {
  readonly config: JobConfig;
  readonly directory: string;
  /** A connection that belongs to nobody of the job. */
  readonly transport: Transport;
  /** The broker loses what the journal stored in the last `forMs` of its time, ten times ours. @returns How many records. */
  loseJournal(forMs: number): number;
  startController(given?: { readonly rules?: Rules; readonly minorLeast?: number }): Promise<Controller>;
  startReplica(role: Role, id: string): TestReplica;
  /** Starts policy replicas `policy-0` …, rollout replicas `rollout-0` … and `checkpoint-0`. */
  startTeam(count: { readonly policy: number; readonly rollout: number }): readonly TestReplica[];
  events<K extends KindOf<"event">>(kind: K): readonly EventOf<K>[];
  /** Every event in order. */
  allEvents(): readonly AnyMessage[];
  /** Waits for an event; continues in the very moment in which watchers get it. */
  when<K extends KindOf<"event">>(kind: K, isMeant?: (body: Body<K>) => boolean): Promise<EventOf<K>>;
  /** Tells the present incarnation of a replica, in the controller's name, that it is no member any more. */
  fence(id: string, incarnation: string): Promise<void>;
  /** Says that the process of a replica has ended, as its supervisor does. */
  reportExit(id: string, pid: number): Promise<void>;
  replay(): Promise<Replayed>;
  /** Ends whatever still runs and removes the files. */
  close(): Promise<void>;
}

/** Opens a job that nobody works on yet. `set` are settings as `--set` takes them; `wire` stands between each actor and the broker. */
export async function openJob(set: readonly string[] = [], wire?: Wire): Promise<SmallJob> {
  dataPlaneActivity(); // an addon that is missing or stale is named here, and not by jobs that do not end
  const folder = await makeTempDirectory();
  const config = smallConfig(folder.path, set);
  const { job } = config;
  const broker = createMemoryBroker({ job, clock: hastyClock });
  const transport = broker.connect("operator.test.i0");
  const watch = await watchEvents(transport);
  const newProcess = processesOn(broker, wire);
  const subjects = subjectsOf(job);
  const voiceOf = (role: "operator" | "controller", id: string) =>
    createEnveloper({ job, id, role, incarnation: "i0", wallMs: Date.now });
  const operator = voiceOf("operator", "test");
  const authority = voiceOf("controller", "controller");
  authority.setTerm(1);
  const say = async (subject: string, message: AnyMessage): Promise<void> => {
    await transport.publish(subject, encodeMessage(message), { msgId: `${message.role}.${message.id}` });
  };
  const controllers: Controller[] = [];
  const replicas: TestReplica[] = [];

  const startReplica = (role: Role, id: string): TestReplica => {
    const process = newProcess();
    const replica = { id, ...process, ...runReplica(role, { job, id, environment: process.environment }) };
    replicas.push(replica);
    return replica;
  };
  const startMany = (role: Role, count: number): readonly TestReplica[] =>
    Array.from({ length: count }, (_, i) => startReplica(role, `${role.role}-${i}`));

  return {
    config,
    directory: folder.path,
    transport,
    loseJournal: (forMs) => broker.lose("journal", forMs),
    ...watch,
    async startController(given = {}) {
      const controller = await startController({ config, dataKey, environment: newProcess().environment, ...given });
      controllers.push(controller);
      return controller;
    },
    startReplica,
    startTeam: ({ policy, rollout }) => [
      ...startMany(policyRole, policy),
      ...startMany(rolloutRole, rollout),
      startReplica(checkpointRole, "checkpoint-0"),
    ],
    fence: (id, incarnation) => {
      const message = { ...authority.stamp("replica.fenced", { reason: "for a test" }), to: incarnation };
      return say(subjects.command(id, "replica.fenced"), message);
    },
    reportExit: (id, pid) => {
      const message = operator.stamp("process.exited", { id, host, pid, code: 1, signal: null });
      return say(subjects.report("operator", "test", "process.exited"), message);
    },
    replay: () => replayJournal(transport.journal(), planOf(config)),
    async close() {
      for (const replica of replicas) replica.stop("the test is over");
      for (const controller of controllers) controller.abort("the test is over");
      await Promise.all([...replicas, ...controllers].map(({ ended }) => ended));
      await transport.close();
      await folder.remove();
    },
  };
}

/** How replicas ended, in the order in which they were started. */
export function endsOf(replicas: readonly Replica[]): Promise<readonly ReplicaEnd[]> {
  const all = () => Promise.all(replicas.map(({ ended }) => ended));
  return withDeadline(all, { what: "the end of all replicas", timeoutMs: waitMs, clock });
}

/** How a controller ended. */
export function endOf(controller: Controller): Promise<Awaited<Controller["ended"]>> {
  return withDeadline(() => controller.ended, { what: "the end of the controller", timeoutMs: waitMs, clock });
}

async function watchEvents(transport: Transport): Promise<Pick<SmallJob, "events" | "allEvents" | "when">> {
  const seen: AnyMessage[] = [];
  const watchers = new Set<(message: AnyMessage) => void>();
  await transport.tail({
    stream: "events",
    fromSeq: 1,
    handle({ data }) {
      const message = decodeMessage(data);
      seen.push(message);
      for (const watcher of watchers) watcher(message);
    },
  });
  const isOf =
    <K extends KindOf<"event">>(kind: K) =>
    (message: AnyMessage): message is AnyMessage & EventOf<K> =>
      message.kind === kind;
  return {
    allEvents: () => [...seen],
    events: (kind) => seen.filter(isOf(kind)),
    async when(kind, isMeant = () => true) {
      const isKind = isOf(kind);
      let stop = (): void => {};
      const happens = new Promise<EventOf<typeof kind>>((resolve) => {
        const watcher = (message: AnyMessage): void => {
          if (isKind(message) && isMeant(message.body)) resolve(message);
        };
        watchers.add(watcher);
        stop = () => void watchers.delete(watcher);
        for (const message of seen) watcher(message);
      });
      const deadline = { what: `the event ${kind}`, timeoutMs: waitMs, clock };
      return await withDeadline(() => happens, deadline).finally(stop);
    },
  };
}
