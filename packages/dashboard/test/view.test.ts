/** What the page makes of events and of the status: pure, so these tests write both down. */
import type { EventMessage } from "@muster/client";
import { describe, expect, it } from "vitest";
import { factOf } from "../src/view/facts.ts";
import { bounds, emptyFold, fold, type JobFold } from "../src/view/fold.ts";
import { rowsOf } from "../src/view/rows.ts";
import { standingOf } from "../src/view/standing.ts";
import { member, replica, someStatus, someStep } from "./support/played.ts";

const secondMs = 1_000;
const event = (kind: string, body: object, sentAtMs = 0): EventMessage =>
  ({ kind, body, sentAtMs, id: "m1", from: "controller", term: 1 }) as unknown as EventMessage;

/** Folds events that come one a second. */
function folded(events: readonly EventMessage[], before: JobFold = emptyFold): JobFold {
  return events.reduce(
    (known, one, i) =>
      fold(
        known,
        factOf(one, before.seq + i + 1, ({ kind }) => kind),
      ),
    before,
  );
}
const steps = (from: number, to: number): readonly EventMessage[] =>
  Array.from({ length: to - from + 1 }, (_, i) => event("step.committed", someStep(from + i), (from + i) * secondMs));

describe("the fold", () => {
  it("takes each fact once, though a stream that was opened again says some of them again", () => {
    const once = folded(steps(1, 3));
    const fact = factOf(event("step.committed", someStep(9)), 2, () => "again");
    expect(fold(once, fact)).toBe(once);
  });

  it("has a curve for each of the first components of rewards, and none for names beyond them", () => {
    const part = (name: string, mean: number) => ({ name, mean, count: 4, spread: 0, least: mean, most: mean });
    const stepWith = (step: number, components?: ReturnType<typeof part>[]): EventMessage =>
      event("step.committed", someStep(step, components ? { components } : {}));
    const many = Array.from({ length: 20 }, (_, i) => part(`made-up-${i}`, i));
    const known = folded([stepWith(1), stepWith(2, [part("form", 0.5)]), stepWith(3, many), stepWith(4, many)]);
    expect([known.parts.length, known.parts[0], known.parts[1]]).toEqual([bounds.parts, "form", "made-up-0"]);
    expect(known.steps.map(({ parts }) => parts.slice(0, 2))).toEqual([[], [0.5], [null, 0], [null, 0]]);
    expect(known.steps.every(({ parts }) => parts.length <= bounds.parts)).toBe(true);
  });

  it("takes back the steps behind a roll-back", () => {
    const known = folded([...steps(1, 5), ...steps(3, 4)]);
    expect(known.steps.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  });

  it("names a bounded number of a mesh's members", () => {
    const members = Array.from({ length: 5_000 }, (_, i) => `policy-${i}`);
    const [epoch] = folded([event("mesh.changed", { epoch: 1, members })]).epochs;
    expect(epoch?.members).toHaveLength(33);
    expect(epoch?.members.at(-1)).toBe("and 4968 more");
  });

  it("keeps a bounded number of everything, the newest of it, however long a job runs", () => {
    const many = bounds.steps * 2 + 1;
    const known = folded([
      ...steps(1, many),
      ...Array.from({ length: bounds.epochs * 2 }, (_, epoch) =>
        event("mesh.changed", { epoch, members: ["policy-0"] }),
      ),
      ...Array.from({ length: bounds.why + 10 }, (_, i) =>
        event("member.died", { id: `rollout-${i}`, evidence: "gone" }),
      ),
    ]);
    expect(known.steps.length).toBeLessThanOrEqual(bounds.steps);
    expect(known.steps.at(-1)?.step).toBe(many);
    expect(known.steps[0]?.step).toBeLessThan(4);
    expect([known.epochs.length, known.epochs.at(-1)?.epoch]).toEqual([bounds.epochs, bounds.epochs * 2 - 1]);
    expect(known.news.length).toBe(bounds.news);
    expect(Object.keys(known.why)).toHaveLength(bounds.why);
  });

  it("shows one row for a command, with the last that became of it", () => {
    const said = { commandId: "c-1", kind: "fleet.scale", by: "muster.i1" };
    const known = folded([
      event("command.accepted", { ...said, asked: "{}", detail: "2 to start" }),
      event("command.done", { ...said, outcome: "done", detail: "2 of 2" }),
    ]);
    expect(known.commands).toMatchObject([{ id: "c-1", outcome: "done", detail: "2 of 2" }]);
  });

  it("is not over any more when the job is resumed", () => {
    const ended = folded([event("job.ended", { outcome: "stopped", reason: "an operator" })]);
    expect(ended.ended?.outcome).toBe("stopped");
    expect(folded([event("job.started", { term: 2 })], ended).ended).toBeNull();
  });
});

describe("the rows of replicas", () => {
  it("begin with those that are not well, and name the last that was said of each", () => {
    const dead = { ...replica("rollout-1", "rollout"), health: "RESTARTING", deaths: 2 };
    const status = someStatus();
    const rows = rowsOf(
      { ...status, fleet: { ...status.fleet, replicas: [...status.fleet.replicas, dead] } },
      { "rollout-1": "its process ended with code 1" },
    );
    expect(rows.map(({ id, health, deaths, why }) => [id, health, deaths, why])).toEqual([
      ["rollout-1", "restarting", 2, "its process ended with code 1"],
      ["policy-0", "healthy", 0, ""],
      ["rollout-0", "healthy", 0, ""],
    ]);
  });

  it("say of replicas that no node runs that nobody can replace or kill them from here", () => {
    const status = someStatus({ members: [member("by-hand", "rollout")] });
    expect(rowsOf(status, {})).toMatchObject([{ id: "by-hand", isManaged: false, node: null }]);
  });
});

describe("the standing", () => {
  const known = folded(steps(1, 10));
  const lastMs = 10 * secondMs;
  const seen = (changes: Parameters<typeof someStatus>[0] = {}, ageMs = 0) => ({ ...someStatus(changes), ageMs });

  it("says that a job moves, and how long its steps take", () => {
    const standing = standingOf(seen(), known, lastMs + 2_000);
    expect(standing).toEqual({
      ...{ state: "moving", holders: [] },
      sentence: "Step 10 was committed 2.0 s ago; a step usually takes 1.0 s.",
    });
  });

  it("names who holds a job up: what is missing first, then who is not well, then who owes an answer", () => {
    const owing = { ...member("policy-0", "policy"), order: "step.apply" };
    const ill = { ...member("rollout-0", "rollout"), health: "suspect" };
    const status = seen({ members: [owing, ill] });
    const fleet = { ...status.fleet, missing: ["no node has room for policy-1"], replicas: [] };
    const died = folded([event("member.suspected", { id: "rollout-0", evidence: "silent for 9 s" })], known);
    const standing = standingOf({ ...status, fleet }, died, lastMs + 60_000);
    expect(standing.state).toBe("slow");
    expect(standing.holders).toEqual([
      "no node has room for policy-1",
      "rollout-0 is suspect: silent for 9 s",
      "policy-0 has not answered step.apply",
    ]);
  });

  it("says that a controller is silent, rather than that the job is slow", () => {
    expect(standingOf(seen({}, 8_000), known, lastMs + 60_000).state).toBe("away");
  });

  it("knows a job of which nothing was shown yet, and one that is over", () => {
    expect(standingOf(null, emptyFold, 0).state).toBe("waiting");
    const ended = folded([event("job.ended", { outcome: "failed", reason: "no checkpoint" })], known);
    expect(standingOf(seen(), ended, lastMs)).toMatchObject({
      state: "ended",
      sentence: "The job is failed: no checkpoint",
    });
  });

  it("does not call a job slow whose steps take minutes", () => {
    const slow = folded([60, 120, 180].map((at, i) => event("step.committed", someStep(i + 1), at * secondMs)));
    expect(standingOf(seen(), slow, 300 * secondMs).state).toBe("moving");
    expect(standingOf(seen(), slow, 400 * secondMs).state).toBe("slow");
  });
});
