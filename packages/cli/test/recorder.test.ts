import type { EventMessage } from "@muster/client";
import type { Body } from "@muster/protocol";
import { describe, expect, it, test } from "vitest";
import { createRecorder } from "../src/run/recorder.ts";

const startMs = Date.UTC(2026, 0, 1);
const sections = (version: number) => [{ name: "weights" as const, digest: `xxh3b:${version}`, bytes: 4 }];
const ledgerOf = (step: number) => ({ admitted: 8 * step, trained: 8 * step, aborted: 0, quarantined: 0, pending: 0 });
const said = <K extends EventMessage["kind"]>(kind: K, body: Body<K>) => ({ kind, body }) as unknown as EventMessage;

/** A step of a deterministic job: its reward is that of the step, whoever computes it. */
const committed = (step: number, lineage: number) =>
  said("step.committed", {
    step,
    attempt: 1,
    epoch: lineage,
    lineage,
    version: step,
    sections: sections(step),
    reward: step / 100,
    tokens: 100 + step,
    staleness: 0,
    groups: [`${step}.0`, `${step}.1`],
    ledger: ledgerOf(step),
    members: 1,
    stepMs: 10,
    computeMs: 5,
    reduceMs: 1,
    gradNorm: 1,
    clipFraction: 0,
    loss: 0,
    approxKl: 0,
    entropy: 1,
  });
const steps = (from: number, to: number, lineage: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => committed(from + i, lineage));
const evaluated = (version: number, correct = version) => said("eval.finished", { version, prompts: 100, correct });
const wentBack = (step: number) =>
  said("alarm.raised", { alarm: "rollback", detail: `going back to step ${step}` } as Body<"alarm.raised">);
const ended = (step: number, lineage: number) =>
  said("job.ended", {
    outcome: "done",
    reason: "all steps are committed",
    step,
    lineage,
    version: step,
    sections: sections(step),
    ledger: ledgerOf(step),
  });

const status = { state: "running", reason: "", steps: 30, written_at: "" } as const;

/** The record of a run that heard these events, one a second. */
function recordOf(events: readonly EventMessage[]) {
  const recorder = createRecorder();
  for (const [i, event] of events.entries()) recorder.take({ ...event, sentAtMs: startMs + 1_000 * i });
  return recorder.record({ job: "j", seed: 7, configText: "", status, samples: [], injections: [] });
}

/** A summary without what depends on when things happened and what went wrong. */
function resultOf(events: readonly EventMessage[]) {
  const { incidents, ettr, tokens_wasted, wall_s, tokens_per_s, ...result } = recordOf(events).summary;
  return result;
}

const quiet = [evaluated(0), ...steps(1, 20, 1), evaluated(20), ...steps(21, 30, 1), evaluated(30), ended(30, 1)];

describe("runs that end with the same weights have the same summary", () => {
  const killed = {
    "a job that goes back in the middle": [
      evaluated(0),
      ...steps(1, 14, 1),
      wentBack(8),
      ...steps(9, 20, 2),
      evaluated(20),
      ...steps(21, 30, 2),
      evaluated(30),
      ended(30, 2),
    ],
    "a job that begins anew again and again, and goes back across an evaluation": [
      evaluated(0),
      ...steps(1, 3, 1),
      wentBack(0),
      ...steps(1, 9, 2),
      wentBack(0),
      ...steps(1, 20, 3),
      evaluated(20),
      ...steps(21, 22, 3),
      wentBack(16),
      ...steps(17, 30, 4),
      evaluated(20),
      evaluated(30),
      ended(30, 4),
    ],
    "a commit that is heard after the job went back before it": [
      evaluated(0),
      ...steps(1, 11, 1),
      wentBack(8),
      committed(9, 2),
      committed(12, 1),
      ...steps(10, 20, 2),
      evaluated(20),
      ...steps(21, 30, 2),
      evaluated(30),
      ended(30, 2),
    ],
  };

  test.each(Object.entries(killed))("%s", (_, events) => {
    expect(resultOf(events)).toEqual(resultOf(quiet));
    const [record, calm] = [recordOf(events), recordOf(quiet)];
    const timeless = { at_ms: 0, lineage: 0, tokens_per_s: 0 };
    expect(record.steps.map((step) => ({ ...step, ...timeless }))).toEqual(
      calm.steps.map((step) => ({ ...step, ...timeless })),
    );
    expect(record.evals).toEqual(calm.evals);
  });
});

test("the rewards of a summary are those of the first and the last ten steps", () => {
  const { reward_first, reward_last } = resultOf(quiet);
  expect(reward_first).toBeCloseTo(0.055);
  expect(reward_last).toBeCloseTo(0.255);
});

test("a job without rewards has none in its summary, but its loss", () => {
  const given = steps(1, 20, 1).map((event) => {
    if (event.kind !== "step.committed") return event;
    const { reward: _, approxKl: __, ...body } = event.body;
    const heldOutLoss = body.step % 5 === 0 ? { heldOutLoss: 1 / body.step } : {};
    return { ...event, body: { ...body, loss: body.step, ...heldOutLoss } };
  });
  const events = [...given, ended(20, 1)];
  expect(resultOf(events)).toMatchObject({ reward_first: null, reward_last: null, loss_first: 5.5, loss_last: 15.5 });
  expect(resultOf(events)).toMatchObject({ held_out_loss_first: 0.2, held_out_loss_last: 0.05 });
  expect(recordOf(events).steps[0]).toMatchObject({ reward: null, held_out_loss: null, approx_kl: null, loss: 1 });
});

test("what a job left behind when it was stopped after it went back is not in its summary", () => {
  const events = [evaluated(0), ...steps(1, 14, 1), evaluated(14), wentBack(8), ended(8, 2)];
  const result = resultOf(events);
  expect(result).toMatchObject({ steps: 8, weight_version: 8, eval_last: 0 });
  expect(result.reward_last).toBeCloseTo(0.045);
});

describe("the best checkpoint of a summary", () => {
  const best = (version: number, lineage: number, correct: number) =>
    said("checkpoint.best", { step: version, version, lineage, path: `/c/${version}`, prompts: 100, correct });
  const bestOf = (events: readonly EventMessage[]) => resultOf(events).best_checkpoint;

  test("is the last one that was named, with its share", () => {
    const events = [...steps(1, 10, 1), best(4, 1, 40), best(8, 1, 80), ended(10, 1)];
    expect(bestOf(events)).toEqual({ step: 8, path: "/c/8", accuracy: 0.8 });
    expect(bestOf(quiet)).toBeNull();
  });

  test("stands as the steps do: what was left behind is not one, and what was before it is again", () => {
    const before = [...steps(1, 10, 1), best(4, 1, 40), best(8, 1, 80), wentBack(6)];
    expect(bestOf([...before, committed(7, 2)])).toMatchObject({ step: 4 });
    expect(bestOf([...before, committed(7, 2), committed(8, 2), best(8, 2, 60)])).toMatchObject({ accuracy: 0.6 });
    expect(bestOf([...before, ended(6, 2)])).toMatchObject({ step: 4 });
  });
});

test("a run that is interrupted is described by the newest commit that stands", () => {
  const result = resultOf([...steps(1, 14, 1), wentBack(8), committed(9, 2), committed(14, 1)]);
  expect(result).toMatchObject({ steps: 9, weight_version: 9, weights_hash: "xxh3b:9", ledger: ledgerOf(9) });
});

describe("a job that was interrupted and goes on", () => {
  const came = (incarnation: string) =>
    said("member.joined", { id: "policy-0", role: "policy", incarnation } as Body<"member.joined">);
  const went = (incarnation: string) =>
    said("member.left", { id: "policy-0", role: "policy", incarnation, reason: "SIGTERM" } as Body<"member.left">);
  const began = (term: number) => said("job.started", { term, steps: 30, seed: 7 } as Body<"job.started">);
  const whole = [began(1), came("a"), ...steps(1, 30, 1), ended(30, 1)];
  /** Events one a second, and an hour before the second start. */
  const told = (events: readonly EventMessage[]) => {
    const recorder = createRecorder();
    let atMs = startMs;
    for (const event of events) {
      atMs += event.kind === "job.started" && event.body.term > 1 ? 3_600_000 : 1_000;
      recorder.take({ ...event, sentAtMs: atMs });
    }
    return recorder.record({ job: "j", seed: 7, configText: "", status, samples: [], injections: [] });
  };
  const resumed = [
    began(1),
    came("a"),
    ...steps(1, 14, 1),
    went("a"),
    began(2),
    came("b"),
    ...steps(15, 30, 2),
    ended(30, 2),
  ];

  test("has the time, the speed and the curves of one that was not, whoever reads its events", () => {
    const [record, quiet] = [told(resumed), told(whole)];
    // Two joins, a leave and a second start are four more events, of which the first start costs none.
    expect(record.summary.wall_s).toBe(quiet.summary.wall_s + 2);
    expect(record.summary.tokens_per_s).toBeCloseTo((quiet.summary.tokens_per_s * 32) / 34, 5);
    expect(record.steps.map(({ step }) => step)).toEqual(quiet.steps.map(({ step }) => step));
    const times = record.steps.map(({ at_ms }) => at_ms);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(record.summary.incidents).toEqual([]);
    expect(record.summary.ettr).toBe(1);
  });

  test("but one whose processes were all killed was broken: its time counts, and its controller has changed", () => {
    const { summary } = told(resumed.filter(({ kind }) => kind !== "member.left"));
    expect(summary.wall_s).toBeGreaterThan(3_600);
    expect(summary.incidents.map(({ kind }) => kind)).toEqual(["controller.changed"]);
  });

  test("no step is there twice, and each says its lineage", () => {
    const events = [...steps(1, 14, 1), wentBack(8), ...steps(9, 20, 2), ended(20, 2)];
    const { steps: found } = told(events);
    expect(found.map(({ step, lineage }) => [step, lineage])).toEqual(
      Array.from({ length: 20 }, (_, i) => [i + 1, i < 8 ? 1 : 2]),
    );
  });
});

describe("a broker that is away", () => {
  it.each(["brokerEnded", "brokerSilent"] as const)(
    "is an incident until the next commit, and its time is not productive (%s)",
    (how) => {
      const recorder = createRecorder();
      for (let step = 1; step <= 10; step++) recorder.take({ ...committed(step, 1), sentAtMs: startMs + 1_000 * step });
      recorder[how]("it is away", startMs + 11_000);
      recorder.take({ ...committed(11, 1), sentAtMs: startMs + 101_000 });
      const { incidents, ettr } = recorder.record({
        job: "j",
        seed: 7,
        configText: "",
        status,
        samples: [],
        injections: [],
      }).summary;
      expect(incidents).toEqual([
        {
          kind: how === "brokerEnded" ? "broker.died" : "broker.silent",
          at_ms: 10_000,
          subject: "nats-server",
          detail: "it is away",
          recover_ms: 90_000,
        },
      ]);
      expect(ettr).toBeCloseTo(10 / 100);
    },
  );
});
