/** A job that a test plays: a broker in memory, a controller that says what the test wants, and the page's server over it. */
import { silentLogger } from "@muster/base";
import { clientOf, type EventMessage } from "@muster/client";
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
import { systemClock } from "@muster/runtime";
import { createMemoryBroker } from "@muster/transport/internal";
import { type DashboardOptions, openDashboard } from "../../src/index.ts";

const job = "played";
export const token = "a-token-for-tests-only";
const subjects = subjectsOf(job);

/** A job of two replicas on one node, at step 3 of 10. */
export const someStatus = (changes: Partial<JobStatus> = {}): JobStatus => ({
  ...{ job, atMs: Date.now(), term: 1, controller: { host: "host-a", pid: 7 }, phase: "sampling", step: 3, steps: 10 },
  ...{ attempt: 1, epoch: 1, mesh: ["policy-0"], lineage: 0, version: 3, sections: [], leases: 4 },
  ...{ dropped: { duplicate: 0, stale: 0 }, causes: [], checkpoint: null, membersLeftOut: 0, streams: {}, totals: {} },
  ledger: { admitted: 40, trained: 30, aborted: 0, quarantined: 0, pending: 10 },
  incidents: { counts: {}, open: 0, tokensWasted: 0, ettr: 1 },
  members: [member("policy-0", "policy"), member("rollout-0", "rollout")],
  fleet: {
    ...{
      wanted: { policy: 1, rollout: 1, checkpoint: 0 },
      leftOut: { nodes: 0, replicas: 0 },
      missing: [],
      commands: [],
    },
    totals: { policy: { HEALTHY: 1 }, rollout: { HEALTHY: 1 } },
    nodes: [
      { ...{ id: "node-0", host: "host-a", cordoned: false, signs: [], replicas: 2, devices: [] }, capacity: nowhere },
    ],
    replicas: [replica("policy-0", "policy"), replica("rollout-0", "rollout")],
  },
  ...changes,
});
const nowhere = { policy: null, rollout: null, checkpoint: null };

export const member = (id: string, role: string): JobStatus["members"][number] => ({
  ...{ id, role, ranks: 1, incarnation: "i1", health: "healthy", host: "host-a", pid: 8, version: 3, order: null },
  ...{ phase: "idle", beatAgeMs: 300, loopLagMs: 1, rssBytes: 2 ** 27 },
});

export const replica = (id: string, role: string): JobStatus["fleet"]["replicas"][number] => ({
  ...{ id, role, node: "node-0", health: "HEALTHY", life: 1, deaths: 0, cordoned: false, devices: [] },
});

/** A step of some number; one a second. */
export const someStep = (step: number, changes: Partial<Body<"step.committed">> = {}): Body<"step.committed"> => ({
  ...{
    step,
    attempt: 1,
    epoch: 1,
    version: step,
    lineage: 0,
    sections: [],
    reward: step / 10,
    tokens: 100,
    staleness: 0,
  },
  ...{ groups: [], members: 1, stepMs: 900, computeMs: 500, reduceMs: 100, gradNorm: 1, clipFraction: 0, entropy: 1 },
  ledger: { admitted: 40, trained: 30, aborted: 0, quarantined: 0, pending: 10 },
  ...{ loss: 0, approxKl: 0 },
  ...changes,
});

/** Opens it. */
export async function playJob(options: Partial<DashboardOptions> = {}) {
  const broker = createMemoryBroker({ job });
  const transport = broker.connect("controller.controller.i1");
  const enveloper = createEnveloper({ job, id: "controller", role: "controller", incarnation: "i1", wallMs: Date.now });
  const asked: AnyMessage[] = [];
  const say = async <K extends KindOf<"event">>(kind: K, body: Body<K>): Promise<void> => {
    const message = enveloper.stamp(kind, body) as AnyMessage;
    await transport.publish(subjects.event(kind), encodeMessage(message), { msgId: message.id });
  };
  await transport.consume({
    ...{ stream: "reports", consumer: "controller", filter: subjects.all.reports, deliver: "all", maxPending: 8 },
    handle: ({ data, ack }) => {
      ack();
      const message = decodeMessage(data);
      asked.push(message);
      const { commandId = "" } = message.body as { commandId?: string };
      void say("command.accepted", {
        ...{ commandId, kind: message.kind, by: message.from },
        asked: "{}",
        detail: "taken",
      });
    },
  });
  const client = clientOf(broker.connect("operator.muster.i2"), { incarnation: "i2" });
  const dashboard = await openDashboard({
    ...{ client, host: "127.0.0.1", port: 0, token, isReadOnly: false, hostNames: [], clock: systemClock() },
    ...{ say: ({ kind, body }: EventMessage) => `${kind} ${JSON.stringify(body).slice(0, 200)}`, log: silentLogger },
    ...options,
  });
  return {
    ...{ asked, say, client, dashboard, base: `http://127.0.0.1:${dashboard.port}` },
    show: (status: JobStatus) => transport.state().put(statusKey, encodeStatus(status)),
    async close() {
      await dashboard.close();
      await client.close();
      await transport.close();
    },
  };
}
