/** A group that ends the trainers that compute it is found by halves and given up; who ends nobody never is. */
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { runBodyOf } from "../src/controller/step/plan-step.ts";
import { planSearch } from "../src/controller/step/search-batch.ts";
import { bodiesOf, planWith, reportFrom, stepping, voteFor } from "./states.ts";

const groupsPerStep = 16;
const plan = planWith({ groupsPerStep });

const begun = (): ControllerState => stepping({}, { plan });

/** Indices of the groups that the running attempt computes. */
const computed = (state: ControllerState): readonly number[] =>
  runBodyOf(state, { lineage: 0, version: 3 })
    .batch.flatMap(({ groupIds }) => groupIds)
    .map((id) => Number(id.split(".")[1]));

interface Run {
  readonly state: ControllerState;
  readonly alarms: readonly string[];
  /** What each attempt computed. */
  readonly attempts: readonly (readonly number[])[];
  readonly ends: number;
}

/** One attempt at the step: somebody ends in it, or all vote, and the same trainers are there again. */
function attempted(
  { state: before, alarms, attempts, ends }: Run,
  endsOver: (groups: readonly number[]) => boolean,
  { signal = "SIGSEGV", isStorm = false }: Ends = {},
): Run {
  const state = isStorm ? ended(before, "r0", "SIGKILL").state : before;
  const groups = computed(state);
  const isLost = endsOver(groups);
  const changes = isLost ? [ended(state, "p1", signal)] : [votedBy(state, "p0")];
  if (!isLost) changes.push(votedBy(changes[0]?.state ?? state, "p1"));
  const [last] = changes.slice(-1);
  const next = again(last?.state ?? state, before);
  return {
    state: next.state,
    alarms: [...alarms, ...changes, next].flatMap((one) => (typeof one === "string" ? one : alarmsOf(one.effects))),
    attempts: [...attempts, groups],
    ends: ends + (isLost ? 1 : 0),
  };
}

const alarmsOf = (effects: Parameters<typeof bodiesOf>[0]): readonly string[] =>
  bodiesOf(effects, "alarm.raised").map(({ alarm, detail }) => `${alarm}: ${detail}`);

/** How trainers end, and whether samplers are killed at the same time. */
interface Ends {
  readonly signal?: string;
  readonly isStorm?: boolean;
}

const ended = (state: ControllerState, id: string, signal: string) => {
  const { role = "policy", host = "", pid = 0 } = state.members[id] ?? {};
  const body = { id, role, host, pid, code: null, signal } as const;
  return control(state, { ...reportFrom(state, id, { kind: "process.exited", body }), role: "operator" });
};

const votedBy = (state: ControllerState, id: string) => {
  const { step, attempt } = state.step;
  const { missing: _, unreadable: __, ...vote } = voteFor(4);
  const body = { ...vote, step, attempt, epoch: state.mesh.epoch, missing: [], cause: "" };
  return control(state, reportFrom(state, id, { kind: "step.voted", body } as never));
};

/** The mesh is ready again with the trainers that there were, and the next attempt runs. */
const again = (state: ControllerState, { members, mesh }: ControllerState) =>
  state.step.step === 4 && state.step.state === "sampling"
    ? control({ ...state, members, mesh }, { type: "controller.tick", atMs: state.nowMs + 1 })
    : { state, effects: [] };

/** Attempts until the step is over, or the job. */
function runOf(endsOver: (groups: readonly number[], attempt: number) => boolean, ends?: Ends): Run {
  let run: Run = { state: begun(), alarms: [], attempts: [], ends: 0 };
  for (let i = 0; i < 100 && run.state.step.step === 4 && !run.state.ending; i++)
    run = attempted(run, (groups) => endsOver(groups, i), ends);
  return run;
}

describe("a group that ends the trainers that compute it", () => {
  it.each(Array.from({ length: groupsPerStep }, (_, index) => index))("is found and given up: group %i", (bad) => {
    const { state, alarms, attempts, ends } = runOf((groups) => groups.includes(bad));
    expect(state.ending).toBeNull();
    expect(state.weights?.version).toBe(4);
    expect(state.history[4]?.map(({ index }) => index)).toEqual(
      Array.from({ length: groupsPerStep }, (_, index) => index).filter((index) => index !== bad),
    );
    // Three of the whole batch, one for each halving at most, and one more that proves it.
    expect(ends).toBeLessThanOrEqual(3 + Math.log2(groupsPerStep) + 1);
    expect(attempts.length).toBeLessThanOrEqual(3 + Math.log2(groupsPerStep) + 2 + 1);
    expect(attempts.filter((groups) => groups.join() === `${bad}`)).toHaveLength(2);
    expect(imbalanceOf(ledgerOf(state))).toBe(0);
    expect(state.ledger).toMatchObject({ trained: 2 * (groupsPerStep - 1), quarantined: 2 });
    expect(alarms.filter((line) => line.startsWith("batch: "))).toEqual([
      "batch: step 4 lost its trainers in 3 attempts in a row: its 16 groups are computed in parts, to find the one that ends them",
      expect.stringMatching(
        new RegExp(`^batch: group 4\\.${bad} of .* in message \\d+ is given up: .*p1: process ended`),
      ),
    ]);
  });

  it("is not the only one: each is found by a search of its own", () => {
    const { state } = runOf((groups) => groups.includes(2) || groups.includes(11));
    expect(state.ending).toBeNull();
    expect(state.ledger).toMatchObject({ trained: 2 * (groupsPerStep - 2), quarantined: 4 });
  });
});

describe("trainers that end by chance", () => {
  it("make a search fail, and nobody is given up", () => {
    const { state, alarms } = runOf((_, attempt) => attempt < 5);
    expect(state.weights?.version).toBe(4);
    expect(state.ledger.quarantined).toBe(0);
    expect(alarms.at(-1)).toBe(
      "batch: none of the groups of step 4 ends trainers by itself: all of them are computed again",
    );
  });

  it("over all groups together only end the job, after some searches", () => {
    const { state } = runOf((groups) => groups.length === groupsPerStep);
    expect(state.ending?.reason).toContain("step 4 lost its trainers in 20 attempts in a row");
    expect(state.ledger.quarantined).toBe(0);
  });
});

describe("trainers that are killed, perhaps from outside", () => {
  const killed = { signal: "SIGKILL" };
  const storm = { signal: "SIGKILL", isStorm: true };
  const alone = ({ attempts }: Run): number => attempts.filter((groups) => groups.length === 1).length;
  /** Lost attempts until two trainers ended over the first group alone: three of the whole batch, and as many as halve it. */
  const untilTwoAlone = 3 + Math.log2(groupsPerStep) + 1;

  it("prove nothing in a storm: who is alone then is not given up after two", () => {
    const run = runOf((_, attempt) => attempt < untilTwoAlone, storm);
    expect(run.state.weights?.version).toBe(4);
    expect(run.state.ledger.quarantined).toBe(0);
    expect(alone(run)).toBe(3);
  });

  it("prove it after five in a storm, and after two where nobody else is lost", () => {
    for (const [ends, times] of [
      [storm, 5],
      [killed, 2],
      [{ signal: "SIGSEGV", isStorm: true }, 2],
    ] as const) {
      const run = runOf((groups) => groups.includes(6), ends);
      expect(run.state.history[4]).toHaveLength(groupsPerStep - 1);
      expect(run.state.ledger.quarantined).toBe(2);
      expect(alone(run)).toBe(times);
    }
  });

  it("are no storm for the group that is found next: what one did to them is explained", () => {
    const run = runOf((groups) => groups.includes(2) || groups.includes(11), killed);
    expect(run.state.ledger.quarantined).toBe(4);
    expect(alone(run)).toBe(4);
    expect(run.state.outsideLosses).toEqual([]);
  });

  it("are one where a search found nobody: that came from outside, and so may what comes then", () => {
    // The first search ends with three trials that are survived; the second one begins after three more of the whole batch.
    const second = 8 + untilTwoAlone;
    const run = runOf((_, attempt) => attempt < 5 || (attempt >= 8 && attempt < second), killed);
    expect(run.attempts[second - 1]).toEqual([0]);
    expect(run.state.history[4]).toHaveLength(groupsPerStep);
    expect(run.state.ledger.quarantined).toBe(0);
  });
});

describe("a trial", () => {
  /** Three attempts at its step are lost, and the next one could begin. */
  const lostThrice = (state: ControllerState): ControllerState => ({
    ...state,
    step: { ...state.step, state: "sampling" },
    losses: { 4: { count: 3, causes: ["p1 hangs"], isOpen: true } },
  });
  const searched = (): ControllerState => {
    let run: Run = { state: begun(), alarms: [], attempts: [], ends: 0 };
    for (let i = 0; i < 3; i++) run = attempted(run, () => true);
    return run.state;
  };

  it("computes half of the suspects, and whoever is elected says the same", () => {
    const state = searched();
    expect(computed(state)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const { state: next } = control(state, { type: "controller.elected", atMs: 50, term: 2 });
    expect(computed(next)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it("of a batch with one group is that group", () => {
    const single = stepping({}, { plan: planWith({ groupsPerStep: 1 }) });
    expect(planSearch(lostThrice(single))?.state.losses?.[4]?.search).toMatchObject({ suspects: [0], trial: [0] });
  });

  it("begins after three lost attempts, once the next one could begin, and of each the conclusion is drawn once", () => {
    const state = lostThrice(begun());
    const losses = planSearch(state)?.state.losses?.[4];
    // Nobody knows of an end: attempts are lost with trainers that hang, too.
    expect(losses).toMatchObject({ isOpen: false, count: 3, search: { alone: 0, endedBefore: 0 } });
    expect(planSearch(planSearch(state)?.state ?? state)).toBeNull();
    const again = { ...state, losses: { 4: { ...losses, count: 3, causes: [], isOpen: true } } };
    expect(planSearch(again)?.state.losses?.[4]).toMatchObject({ isOpen: false, count: 4 });
    for (const patch of [
      { step: { ...state.step, state: "running" as const } },
      { mesh: { ...state.mesh, state: "broken" as const } },
      { ending: { outcome: "stopped" as const, reason: "", announced: false } },
    ])
      expect(planSearch({ ...state, ...patch })).toBeNull();
    const two = { ...state, losses: { 4: { count: 2, causes: [], isOpen: true } } };
    expect(planSearch(two)?.state.losses?.[4]).toEqual({ count: 2, causes: [], isOpen: false });
  });

  it("that proves its group leaves nothing of what is counted of the step", () => {
    const search = { suspects: [2], trial: [2], alone: 1, endedBefore: 1 };
    const losses = { 4: { count: 3, causes: ["p1: SIGSEGV"], ended: 2, isOpen: true, search } };
    const change = planSearch({ ...lostThrice(begun()), losses });
    expect(change?.state.losses).toEqual({ 4: { count: 0, causes: [] } });
    expect(change?.state.groups[4]?.quarantined).toEqual([2]);
  });

  it("that nobody ended in proves nothing, is repeated, and counts as one more lost attempt", () => {
    const state = searched();
    const body = { ...voteFor(4), vote: "abort", cause: "p1 is missing", missing: ["p1"], unreadable: [] } as const;
    const vote = { ...body, step: 4, attempt: state.step.attempt, epoch: state.mesh.epoch };
    const refused = control(state, reportFrom(state, "p0", { kind: "step.voted", body: vote } as never));
    const next = again(refused.state, state).state;
    expect(computed(next)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(next.losses?.[4]?.count).toBe(4);
  });

  it("is not lost with a trainer that ended before it began", () => {
    const state = searched();
    const idle = { ...state, step: { ...state.step, state: "sampling" as const } };
    const { state: next } = ended(idle, "p1", "SIGKILL");
    expect(next.members.p1).toBeUndefined();
    expect(next.losses).toEqual(state.losses);
    expect(next.outsideLosses).toHaveLength(1);
  });
});
