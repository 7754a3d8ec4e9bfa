/** Every state that a machine can be in, walked: nothing is declared in vain, and what must hold of a state holds in all of them. */
import { checkpointLogic, membershipLogic, nodeLogic, policyLogic, rolloutLogic } from "@muster/machines";
import { beforeAll, describe, expect, it } from "vitest";
import { allMachines, leavesOf, pathOf } from "../machines.ts";
import { plan } from "../plans.ts";
import { eventsOf } from "./alphabet.ts";
import { type Edge, edgesOf, leafPaths } from "./walk.ts";

const timing = { ...plan.timing, initializeMs: 9, registerMs: 20_000 };
const cores: Readonly<Record<string, { readonly logic: unknown; readonly input: unknown }>> = {
  membership: { logic: membershipLogic, input: { role: "policy", host: "h", pid: 1, build: "b", node: null, timing } },
  policy: { logic: policyLogic, input: { timing } },
  rollout: { logic: briefly(rolloutLogic), input: { timing, chunkGroups: 2, leasesMax: 2 } },
  checkpoint: { logic: checkpointLogic, input: { checkpointMs: 9, pullMs: 9 } },
  node: {
    logic: nodeLogic,
    input: { host: "h", capacity: { policy: null, rollout: null, checkpoint: null }, graceMs: 9 },
  },
};

/** The rollout machine, of what it has still to tell no more than matters: whether it keeps the next chunk waiting. Counts have no end. */
function briefly(logic: typeof rolloutLogic): typeof rolloutLogic {
  return {
    ...logic,
    step: (snapshot, event) => {
      const next = logic.step(snapshot, event);
      const { context } = next.snapshot;
      const isWaiting = Object.values(context.untold).filter((count) => count > 0).length > 1;
      const untold: Record<string, number> = isWaiting ? { "1-1/0": 1, "1-2/0": 1 } : {};
      return { ...next, snapshot: { ...next.snapshot, context: { ...context, untold } } };
    },
  };
}

/**
 * What a state may hear without a word, and why: a repeated order whose answer is on its way, or news that are none. That the same
 * configuration comes again with a new term is silent everywhere.
 */
const maySkip: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  membership: {
    "member replica.refused": "overtaken by the admission",
    "draining replica.refused": "overtaken by the admission",
    "draining process.stopping": "asked again",
  },
  policy: {
    "computing step.run": "the attempt that runs",
    "applying step.apply": "the commit that is being made live",
  },
  rollout: {
    "weights.waiting work.ready process.stopping": "asked again",
    "weights.syncing work.ready process.stopping": "asked again",
    "weights.waiting work.ready report.told": "others are still to be told",
    "weights.syncing work.ready report.told": "others are still to be told",
    "weights.waiting work.generating report.told": "others are still to be told",
    "weights.syncing work.generating report.told": "others are still to be told",
    "weights.waiting work.ready receipts.due": "they are told",
    "weights.syncing work.ready receipts.due": "they are told",
    "weights.waiting work.generating receipts.due": "they are told",
    "weights.syncing work.generating receipts.due": "they are told",
  },
  checkpoint: { "disk.ready memory.waiting replica.fenced": "nothing to abort" },
};

const isSilent = ({ before, after, effects, event }: Edge): boolean =>
  effects.length === 0 && JSON.stringify(before) === JSON.stringify(after) && event.type !== "replica.registered";

describe.each(Object.keys(cores))("the %s machine", (name) => {
  const machine = allMachines[name] as NonNullable<(typeof allMachines)[string]>;
  let edges: readonly Edge[] = [];

  beforeAll(() => {
    const { logic, input } = cores[name] ?? {};
    edges = edgesOf(machine, logic, { input, events: eventsOf(name) });
  });

  it("can reach every state that it declares", () => {
    const passing = name === "policy" ? ["settling"] : [];
    const reached = new Set(
      edges.flatMap(({ before, after }) => [...leafPaths(before.value), ...leafPaths(after.value)]),
    );
    const declared = leavesOf(machine).map(pathOf);
    expect(declared.filter((path) => !reached.has(path) && !passing.includes(path))).toEqual([]);
  });

  it("can leave every state that is not final", () => {
    const left = new Set(
      edges.flatMap(({ before, after }) =>
        leafPaths(before.value).filter((path) => !leafPaths(after.value).includes(path)),
      ),
    );
    const declared = leavesOf(machine).filter(({ type }) => type !== "final");
    expect(declared.map(pathOf).filter((path) => !left.has(path) && path !== "settling")).toEqual([]);
  });

  it("never enters a state without what the state needs", () => {
    const lost = edges.filter(({ effects }) => effects.some(({ type, kind }) => type === "drop" && kind === "entry"));
    expect(lost.map(({ before, event }) => `${leafPaths(before.value)} on ${event.type}`)).toEqual([]);
  });

  it("has a word on everything it hears, or says why not", () => {
    const silent = edges
      .filter(isSilent)
      .map(({ before, event }) => `${leafPaths(before.value).join(" ")} ${event.type}`);
    expect([...new Set(silent)].sort()).toEqual(Object.keys(maySkip[name] ?? {}).sort());
  });

  it("keeps its memory plain JSON", () => {
    const some = edges.filter((_, i) => i % 17 === 0);
    for (const { after } of some) expect(JSON.parse(JSON.stringify(after.context))).toEqual(after.context);
  });
});

describe("the policy machine, in every state that it can reach,", () => {
  interface Context {
    readonly build: { readonly epoch: number } | null;
    readonly joinedEpoch: number;
    readonly brokenEpoch: number;
    readonly run: { readonly epoch: number } | null;
    readonly held: { readonly version: number } | null;
    readonly vote: { readonly vote: string; readonly sections: unknown } | null;
  }
  let edges: readonly { readonly value: unknown; readonly context: Context; readonly edge: Edge }[] = [];

  beforeAll(() => {
    const { logic, input } = cores.policy ?? {};
    const walked = edgesOf(allMachines.policy as never, logic, { input, events: eventsOf("policy") });
    edges = walked.map((edge) => ({
      value: edge.after.value,
      context: edge.after.context as unknown as Context,
      edge,
    }));
  });

  it("is ready only in the newest epoch, joined and whole", () => {
    for (const { value, context } of edges.filter((state) => state.value === "ready")) {
      const { build, joinedEpoch, brokenEpoch } = context;
      expect({ value, epoch: joinedEpoch, isWhole: brokenEpoch !== joinedEpoch }).toEqual({
        value,
        epoch: build?.epoch,
        isWhole: true,
      });
    }
  });

  it("computes only in the epoch it joined, from weights that it holds", () => {
    for (const { context } of edges.filter(({ value }) => value === "computing")) {
      expect(context.run?.epoch).toBe(context.joinedEpoch);
      expect(context.held).not.toBeNull();
    }
  });

  it("makes nothing live but the candidate that it voted for", () => {
    const promotions = edges.filter(({ edge }) => edge.effects.some(({ type }) => type === "step.promote"));
    expect(promotions.length).toBeGreaterThan(0);
    for (const { context, edge } of promotions) {
      expect(context.vote?.vote).toBe("commit");
      expect((edge.event as { body?: { sections?: unknown } }).body?.sections).toEqual(context.vote?.sections);
    }
  });

  it("opens the communicator of an epoch at most once, and never one of an older epoch", () => {
    for (const { edge } of edges) {
      const opened = edge.effects.filter(({ type }) => type === "mesh.open") as unknown as {
        body: { epoch: number };
      }[];
      const before = edge.before.context as unknown as Context;
      for (const { body } of opened) expect(body.epoch).toBeGreaterThan(before.joinedEpoch);
    }
  });
});
