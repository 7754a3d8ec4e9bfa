import { type ControllerState, type Member, planOf } from "@muster/machines/controller";
import { initialControllerState } from "@muster/machines/internal";
import { decodeStatus, payloadBytesMax } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { writtenStatus } from "../src/controller/status.ts";
import type { Beat } from "../src/controller/watch-members.ts";
import { statusOf } from "../src/internal.ts";
import { smallConfig } from "./support/small-config.ts";

const fresh = initialControllerState(planOf(smallConfig("never-written")));
const controller = { host: "h", pid: 99 };
const incidents = { counts: {}, open: 0, tokensWasted: 0, ettr: null };
const nobody = { beats: new Map<string, Beat>(), nowMs: 0, wallMs: 1_234, controller, incidents, streams: {} };
const sections = [{ name: "weights" as const, bytes: 8, digest: "d" }];

const memberOf = (id: string, role: Member["role"], joinedSeq: number): Member => ({
  id,
  role,
  incarnation: `${id}-i1`,
  joinedSeq,
  host: "h",
  pid: joinedSeq,
  addresses: [],
  health: "healthy",
  hungAtMs: null,
  recoveries: [],
  held: null,
  order: null,
  retryAtMs: 0,
  unanswered: 0,
});

describe("the status of a job", () => {
  it("shows a job that nobody works on yet", () => {
    expect(statusOf("dates", fresh, nobody)).toEqual({
      job: "dates",
      atMs: 1_234,
      term: 0,
      controller,
      incidents,
      streams: {},
      phase: "gathering",
      script: {
        phases: [0, 0],
        says: "gather the replicas that training begins with",
        waitsFor: ["policy: 0 of 2 are there", "rollout: 0 of 1 are there"],
        more: 0,
      },
      step: 0,
      steps: 3,
      attempt: 1,
      epoch: 0,
      mesh: [],
      lineage: 0,
      version: null,
      sections: [],
      leases: 0,
      dropped: { duplicate: 0, stale: 0 },
      ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0, pending: 0 },
      causes: [],
      best: null,
      checkpoint: null,
      fleet: {
        wanted: { policy: 2, rollout: 2, checkpoint: 1 },
        nodes: [],
        replicas: [],
        missing: [
          "policy: 0 healthy, at least 1 needed (no node is there to start one)",
          "rollout: 0 healthy, at least 1 needed (no node is there to start one)",
        ],
        commands: [],
        totals: {},
        leftOut: { nodes: 0, replicas: 0 },
      },
      members: [],
      totals: {},
      membersLeftOut: 0,
    });
  });

  it("counts committed steps, open leases and pending trajectories", () => {
    const state: ControllerState = {
      ...fresh,
      term: 2,
      weights: { lineage: 1, version: 1, sections },
      step: { ...fresh.step, step: 2, attempt: 3 },
      mesh: { ...fresh.mesh, epoch: 4, members: ["policy-0"], state: "ready" },
      groups: { 2: { queue: [], receipts: {}, quarantined: [0] } },
      leases: { "2-1": { holder: "rollout-0", items: [], dueAtMs: 0 } },
      ledger: { admitted: 32, trained: 16, aborted: 0, quarantined: 4 },
      checkpoints: { ...fresh.checkpoints, saved: { step: 1, version: 1, path: "/c", host: "h" } },
    };
    expect(statusOf("dates", state, nobody)).toMatchObject({
      term: 2,
      phase: "sampling",
      step: 1,
      attempt: 3,
      epoch: 4,
      mesh: ["policy-0"],
      lineage: 1,
      version: 1,
      sections,
      leases: 1,
      ledger: { admitted: 32, trained: 16, aborted: 0, quarantined: 4, pending: 12 },
      checkpoint: { step: 1, path: "/c" },
    });
  });

  it("counts members and managed replicas by their health, and leaves out first whoever is well", () => {
    const health = ["healthy", "suspect", "healthy"] as const;
    const members = Object.fromEntries(
      health.map((each, i) => [`rollout-${i}`, { ...memberOf(`rollout-${i}`, "rollout", i), health: each }]),
    );
    const replica = (state: "HEALTHY" | "DEAD") => ({
      ...{ role: "rollout" as const, seq: 0, node: "n0", life: 1, process: null, ended: 0, member: null },
      ...{ health: state, deaths: 0, leaving: false, replacedBy: null },
    });
    const command = (answer: object | null) => ({ kind: "fleet.scale", by: "op", asked: "more", answer });
    const fleet = {
      ...fresh.fleet,
      replicas: { r0: replica("HEALTHY"), r1: replica("HEALTHY"), r2: replica("DEAD") },
      commands: { open: command(null), done: command({ outcome: "done" }) },
    };
    const state = { ...fresh, members, fleet } as unknown as ControllerState;
    const all = statusOf("dates", state, nobody);
    expect(all.totals).toEqual({ rollout: { healthy: 2, suspect: 1 } });
    expect(all.fleet.totals).toEqual({ rollout: { HEALTHY: 2, DEAD: 1 } });
    expect(all.fleet.commands).toEqual([{ id: "open", kind: "fleet.scale", asked: "more" }]);
    expect(all).not.toHaveProperty("samplers");
    const one = statusOf("dates", state, { ...nobody, rowsMax: 1 });
    expect(one.members.map(({ id }) => id)).toEqual(["rollout-1"]);
    expect(one.fleet.replicas.map(({ id }) => id)).toEqual(["r2"]);
    expect([one.membersLeftOut, one.fleet.leftOut.replicas]).toEqual([2, 2]);
  });

  it("shows the lineage that a restore is about to begin", () => {
    const state: ControllerState = { ...fresh, restore: { ...fresh.restore, lineage: 2, version: 5 } };
    expect(statusOf("dates", state, nobody)).toMatchObject({ phase: "restoring", lineage: 2, version: null });
  });

  it("lists members by role and arrival, with what their heartbeats say where there are any", () => {
    const order = { kind: "weights.pull", lineage: 0, version: 1, dueAtMs: 0 } as const;
    const all = [
      memberOf("checkpoint-0", "checkpoint", 1),
      { ...memberOf("rollout-0", "rollout", 2), held: { lineage: 0, version: 7 }, order },
      memberOf("policy-1", "policy", 4),
      memberOf("policy-0", "policy", 3),
    ];
    const plan = { ...fresh.plan, rolloutRanks: 2 };
    const state = { ...fresh, plan, members: Object.fromEntries(all.map((member) => [member.id, member])) };
    const beat: Beat = {
      version: 7,
      phase: "generating",
      progress: 3,
      loopLagMs: 1.5,
      rssBytes: 2_048,
      incarnation: "rollout-0-i1",
      atMs: 900,
    };
    const beats = new Map([["rollout-0", beat]]);
    const { members } = statusOf("dates", state, { ...nobody, beats, nowMs: 1_000 });
    expect(members.map(({ id }) => id)).toEqual(["policy-0", "policy-1", "rollout-0", "checkpoint-0"]);
    expect(members[2]).toEqual({
      id: "rollout-0",
      role: "rollout",
      ranks: 2,
      incarnation: "rollout-0-i1",
      health: "healthy",
      host: "h",
      pid: 2,
      version: 7,
      order: "weights.pull",
      phase: "generating",
      beatAgeMs: 100,
      loopLagMs: 1.5,
      rssBytes: 2_048,
    });
    expect(members[0]).toMatchObject({
      ranks: 1,
      version: null,
      order: null,
      phase: null,
      beatAgeMs: null,
      rssBytes: null,
    });
  });

  it("shows nodes with the processes that they run; of too many those that need a look stay, in their order", () => {
    const nodes = ["n0", "n1", "n2", "n3"].map((id, i) => memberOf(id, "node", i + 1));
    const node = (signs: readonly object[]) => ({
      ...{ incarnation: "i", capacity: { policy: null, rollout: 4, checkpoint: null }, revision: 0, acked: 0 },
      ...{ signs: signs as never, assigned: "" },
    });
    const sign = { kind: "ecc", detail: "x".repeat(900) };
    const base = {
      ...{ role: "rollout" as const, seq: 0, health: "HEALTHY" as const, life: 2, ended: 0, member: null },
      ...{ deaths: 0, leaving: false, replacedBy: null, process: { pid: 1, life: 2 } },
    };
    const group = { leftovers: [], master: null, begunAtMs: null, restartAtMs: 0, losses: [] };
    const ranks = [
      { node: "n0", process: { pid: 2, life: 1 } },
      { node: "gone", process: null },
      { node: "n1", process: { pid: 3, life: 3 } },
      ...Array.from({ length: 9 }, () => ({ node: "n3", process: null })),
    ];
    const state: ControllerState = {
      ...fresh,
      plan: { ...fresh.plan, processes: { policy: 1, rollout: 13, checkpoint: 1 } },
      members: Object.fromEntries(nodes.map((each) => [each.id, each])),
      fleet: {
        ...fresh.fleet,
        nodes: { n0: node([]), n1: node([sign]), n2: node([]), n3: node([]) },
        cordoned: ["n2", "r1"],
        replicas: { r0: { ...base, node: "n0", group: { ...group, ranks } }, r1: { ...base, node: "n1" } },
      },
    };
    const { fleet } = statusOf("dates", state, nobody);
    expect(fleet.nodes.map(({ id, replicas, cordoned }) => [id, replicas, cordoned])).toEqual([
      ["n0", 2, false],
      ["n1", 2, false],
      ["n2", 0, true],
      ["n3", 9, false],
    ]);
    expect(fleet.nodes[1]?.signs).toHaveLength(1);
    expect(fleet.nodes[1]?.signs[0]?.length).toBeLessThanOrEqual(400);
    expect(fleet.leftOut).toEqual({ nodes: 0, replicas: 0 });
    const [several, single] = fleet.replicas;
    expect(several?.ranks).toEqual({
      ...{ size: 13, up: 2 },
      absent: [
        "rank 1 on h ending",
        "rank 2 on gone starting",
        ...[4, 5, 6, 7, 8, 9].map((rank) => `rank ${rank} on h starting`),
      ],
    });
    expect(single).toMatchObject({ id: "r1", cordoned: true });
    expect(single).not.toHaveProperty("ranks");
    const few = (rowsMax: number) => statusOf("dates", state, { ...nobody, rowsMax }).fleet;
    expect([4, 3, 2, 0].map((max) => few(max).nodes.map(({ id }) => id))).toEqual([
      ["n0", "n1", "n2", "n3"],
      ["n0", "n1", "n2"],
      ["n1", "n2"],
      [],
    ]);
    expect(few(1).leftOut).toEqual({ nodes: 3, replicas: 1 });
  });

  it.each([
    [512, 10],
    [128, 2_000],
    [32, 8_000],
    [0, 25_000],
  ])("has %i rows of 600 members with names of %i characters: as many as fit", (rows, length) => {
    const ids = Array.from({ length: 600 }, (_, i) => `${i}`.padEnd(length, "x"));
    const members = Object.fromEntries(ids.map((id, i) => [id, memberOf(id, "rollout", i)]));
    const shown = decodeStatus(writtenStatus("dates", { ...fresh, members }, nobody), "job");
    expect([shown.members.length, shown.membersLeftOut]).toEqual([rows, 600 - rows]);
  });

  describe("with ten thousand managed replicas", () => {
    const ids = Array.from({ length: 10_000 }, (_, i) => `rollout-${i}-${"x".repeat(36)}`);
    const members = ids.map(
      (id, i) => ({ ...memberOf(id, "rollout", i), health: i < 30 ? "suspect" : "healthy" }) as Member,
    );
    const replica = (i: number) => ({
      ...{ role: "rollout" as const, seq: i, node: "node-0", life: 1, process: null, ended: 0, member: null },
      ...{ health: i < 40 ? ("DEAD" as const) : ("HEALTHY" as const), deaths: 0, leaving: false, replacedBy: null },
    });
    const row = {
      ...{ kind: "fleet.scale" as const, by: "op", asked: "据".repeat(2_000), seq: 1, answer: null },
      ...{ target: null, replacement: null, before: null, sentTerm: 0 },
    };
    const state: ControllerState = {
      ...fresh,
      members: Object.fromEntries(members.map((member) => [member.id, member])),
      fleet: {
        ...fresh.fleet,
        replicas: Object.fromEntries(ids.map((id, i) => [id, replica(i)])),
        commands: Object.fromEntries(Array.from({ length: 128 }, (_, i) => [`c-${i}`, row])),
      },
    };
    const written = writtenStatus("dates", state, nobody);
    const shown = decodeStatus(written, "job");

    it("fits into one value, which it would not with a row for each", () => {
      expect(written.byteLength).toBeLessThan(payloadBytesMax);
      expect(JSON.stringify(statusOf("dates", state, nobody)).length).toBeGreaterThan(2 * payloadBytesMax);
    });

    it("counts all of them and says how many rows are left out", () => {
      expect(shown.totals).toEqual({ rollout: { suspect: 30, healthy: 9_970 } });
      expect(shown.fleet.totals).toEqual({ rollout: { DEAD: 40, HEALTHY: 9_960 } });
      expect(shown.members.length + shown.membersLeftOut).toBe(10_000);
      expect(shown.fleet.replicas.length + shown.fleet.leftOut.replicas).toBe(10_000);
    });

    it("has a row for everybody who is not well", () => {
      expect(shown.members.filter(({ health }) => health === "suspect")).toHaveLength(30);
      expect(shown.fleet.replicas.filter(({ health }) => health === "DEAD")).toHaveLength(40);
    });
  });
});
