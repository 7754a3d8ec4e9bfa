/** A job without actors: a real broker, its folder, and a controller's voice that says what a test wants. */
import { join } from "node:path";
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  encodeStatus,
  type JobStatus,
  type KindOf,
  statusKey,
  subjectsOf,
} from "@muster/protocol";
import { startTestServer } from "@muster/testkit";
import { writeConnection } from "../../src/composition/connection.ts";

/** A job that a test plays. */
export interface FakeJob {
  /** Options by which a command finds it. */
  readonly where: readonly string[];
  readonly runs: string;
  say<K extends KindOf<"event">>(kind: K, body: Body<K>): Promise<void>;
  draw(status: JobStatus): Promise<void>;
  /** Calls back for each request of an operator. */
  hear(request: (message: AnyMessage) => void): Promise<void>;
  /** The broker ends; the folder of the job stays. */
  stopBroker(): Promise<void>;
  close(): Promise<void>;
}

/** Starts it. */
export async function startFakeJob(job: string): Promise<FakeJob> {
  const server = await startTestServer({ job });
  const runs = join(server.directory, "runs");
  writeConnection(join(runs, job), { job, url: server.url, credentials: server.server.credentials });
  const controller = await server.connect("controller.controller.i1");
  const subjects = subjectsOf(job);
  const enveloper = createEnveloper({
    job,
    id: "controller",
    role: "controller",
    incarnation: "i1",
    wallMs: () => Date.UTC(2025, 0, 1, 12),
  });
  return {
    where: ["--runs", runs, "--job", job],
    runs,
    async say(kind, body) {
      const message = enveloper.stamp(kind, body) as AnyMessage;
      await controller.publish(subjects.event(kind), encodeMessage(message), { msgId: message.id });
    },
    async draw(status) {
      await controller.state().put(statusKey, encodeStatus(status));
    },
    async hear(request) {
      await controller.consume({
        stream: "reports",
        consumer: "controller",
        filter: subjects.all.reports,
        deliver: "all",
        maxPending: 16,
        handle: ({ data, ack }) => {
          ack();
          request(decodeMessage(data));
        },
      });
    },
    stopBroker: () => server.server.stop(),
    close: () => server.close(),
  };
}

const managed = { node: "node-0", health: "HEALTHY", life: 1, deaths: 0, cordoned: false };
const none = { admitted: 0, trained: 0, aborted: 0, quarantined: 0, pending: 0 };

/** A status of a small job in the middle of its work. */
export function statusOf(job: string, change: Partial<JobStatus> = {}): JobStatus {
  const member = { incarnation: "i1", health: "healthy", host: "here", pid: 7, version: 3, order: null, phase: "idle" };
  const beat = { beatAgeMs: 250, loopLagMs: 2, rssBytes: 128 * 1024 ** 2 };
  return {
    job,
    atMs: Date.now(),
    term: 2,
    controller: { host: "here", pid: 6 },
    phase: "sampling",
    step: 3,
    steps: 10,
    attempt: 1,
    epoch: 4,
    mesh: ["policy-0"],
    lineage: 0,
    version: 3,
    sections: [{ name: "weights", bytes: 1024, digest: "xxh3b:0123456789abcdef" }],
    leases: 2,
    dropped: { duplicate: 1, stale: 5 },
    ledger: { ...none, admitted: 64, trained: 48, pending: 16 },
    causes: [],
    incidents: { counts: { "rollout.died": 2 }, open: 1, tokensWasted: 0, ettr: 0.975 },
    checkpoint: { step: 2, path: "checkpoints/step-2" },
    streams: { groups: { bytes: 96 * 1024 ** 2, bytesMax: 128 * 1024 ** 2 } },
    fleet: {
      wanted: { policy: 1, rollout: 2, checkpoint: 0 },
      nodes: [
        {
          ...{ id: "node-0", host: "here", cordoned: true, signs: ["GPU 0: 3 errors"], replicas: 2 },
          capacity: { policy: 1, rollout: null, checkpoint: null },
          devices: ["0", "1", "2"],
        },
      ],
      replicas: [
        { ...managed, id: "policy-0", role: "policy", devices: ["0"] },
        { ...managed, id: "rollout-1", role: "rollout", health: "RESTARTING", life: 3, deaths: 2, devices: ["1", "2"] },
      ],
      totals: { policy: { HEALTHY: 1 }, rollout: { RESTARTING: 1 } },
      leftOut: { nodes: 0, replicas: 0 },
      missing: [],
      commands: [{ id: "c-1", kind: "fleet.scale", asked: '{"rollout":2}' }],
    },
    members: [
      { id: "policy-0", role: "policy", ranks: 1, ...member, ...beat },
      { id: "rollout-0", role: "rollout", ranks: 1, ...member, ...beat, order: "weights.pull", phase: "generating" },
    ],
    totals: { policy: { healthy: 1 }, rollout: { healthy: 1 } },
    membersLeftOut: 0,
    ...change,
  };
}

/** The end of a job. */
export function endOf(change: Partial<Body<"job.ended">> = {}): Body<"job.ended"> {
  return {
    outcome: "stopped",
    reason: "enough",
    step: 3,
    lineage: 0,
    version: 3,
    sections: [],
    ledger: none,
    ...change,
  };
}
