/** The election of a controller in a job of thousands: what it repeats goes out as the broker takes it, and ends nobody. */
import { emptyIncidentLog } from "@muster/machines";
import { type Member, planOf } from "@muster/machines/controller";
import { initialControllerState } from "@muster/machines/internal";
import { createEnveloper, decodeMessage, encodeMessage, subjectsOf } from "@muster/protocol";
import { waitFor } from "@muster/testkit";
import { createMemoryBroker } from "@muster/transport/internal";
import { describe, expect, it, vi } from "vitest";
import { type Controller, startController } from "../src/controller/index.ts";
import { encodePart, encodeSnapshot, partsOf } from "../src/internal.ts";
import { processesOn } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const counts = { members: 1_000, leases: 5_000 };
const small = smallConfig("never-written");
const config = {
  ...small,
  batch: { ...small.batch, groupsPerStep: 4_096 },
  limits: { ...small.limits, outboxMax: 256 },
  // Nobody beats in this test: nobody is to be missed, either.
  timing: { ...small.timing, leaseMs: 600_000, suspectAfterMs: 600_000, deadAfterMs: 600_000 },
  health: { ...small.health, phi: 1_000, missedBeats: 100_000, hungMinMs: 1e6, hungMaxMs: 1e6, graceMs: 1e6 },
};

const memberOf = (i: number): Member => ({
  ...{ id: `rollout-${i}`, role: "rollout", incarnation: `rollout-${i}-i1`, joinedSeq: i + 1, host: "h", pid: i },
  ...{ addresses: [], health: "healthy", hungAtMs: null, recoveries: [], order: null, retryAtMs: 0, unanswered: 0 },
  held: { lineage: 0, version: 0 },
});
const leaseOf = (i: number) => ({
  holder: `rollout-${i % counts.members}`,
  items: [{ purpose: "train" as const, step: i < 4_096 ? 1 : 2, index: i % 4_096, attempt: 0 }],
  dueAtMs: 1,
});

/** A broker whose journal is the snapshot of a job in the middle of its work. */
async function inherited() {
  const broker = createMemoryBroker({ job: config.job });
  const transport = broker.connect("controller.controller.i0");
  const members = Array.from({ length: counts.members }, (_, i) => memberOf(i));
  const start = initialControllerState(planOf(config));
  const leases = Object.fromEntries(Array.from({ length: counts.leases }, (_, i) => [`1-${i}`, leaseOf(i)]));
  const groups = { queue: [], receipts: {}, quarantined: [] };
  const state = {
    ...start,
    ...{ term: 1, joins: counts.members, leases, groups: { 1: groups, 2: groups } },
    members: Object.fromEntries(members.map((member) => [member.id, member])),
    weights: { lineage: 0, version: 0, sections: [{ name: "weights" as const, bytes: 8, digest: "d" }] },
  };
  const bytes = encodeSnapshot({ state, phase: "gathering", timers: [], untold: [], incidents: emptyIncidentLog });
  let seq = 0;
  for (const part of partsOf(bytes, 1, 512 * 1024))
    seq = await transport.journal().append(encodePart(1, part), seq, `s.${seq}`);
  return { broker, transport };
}

describe("a controller that is elected among thousands of members and leases", () => {
  it("repeats all of them within the bound of its outbox, and goes on with its work", async () => {
    const { broker, transport } = await inherited();
    const { environment, faults } = processesOn(broker)();
    const said = { admitted: new Set<string>(), leased: new Set<string>(), alarms: [] as string[] };
    const subjects = subjectsOf(config.job);
    await transport.subscribe(`muster.${config.job}.commands.>`, (_, data) => {
      const message = decodeMessage(data);
      if (message.kind === "replica.registered") said.admitted.add(message.to ?? "");
      if (message.kind === "groups.lease") said.leased.add(message.body.leaseId);
    });
    await transport.subscribe(subjects.all.events, (_, data) => {
      const message = decodeMessage(data);
      if (message.kind === "alarm.raised") said.alarms.push(`${message.body.alarm}: ${message.body.detail}`);
    });
    const controller: Controller = await startController({ config, dataKey: new Uint8Array(32), environment });
    let end: string | null = null;
    void controller.ended.then(({ reason }) => {
      end = reason;
    });
    const isSaid = (): boolean => said.leased.size >= counts.leases;
    await waitFor(() => isSaid() || end !== null, { what: "all leases", timeoutMs: 40_000 });
    expect(end).toBeNull();
    expect(said.admitted.size).toBe(counts.members);
    expect(isSaid()).toBe(true);
    const joiner = { job: config.job, id: "rollout-new", role: "rollout", incarnation: "new-i1" } as const;
    const body = { role: "rollout", host: "h", pid: 1, engineBuild: "b" } as const;
    const asks = createEnveloper({ ...joiner, wallMs: Date.now }).stamp("replica.register", body);
    const where = subjects.report("rollout", joiner.id, asks.kind);
    await transport.publish(where, encodeMessage(asks), { msgId: asks.id });
    const isIn = (): boolean => controller.snapshot().context.state.members[joiner.id] !== undefined;
    await waitFor(() => isIn() || end !== null, { what: "somebody new", timeoutMs: 20_000 });
    expect([end, faults, said.alarms.filter((alarm) => alarm.startsWith("unsaid"))]).toEqual([null, [], []]);
    controller.abort("the test is over");
    await controller.ended;
  });
});
