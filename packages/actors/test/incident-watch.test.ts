/** The incidents of a job as its controller shows them: in the status, and on the page of numbers. */
import { applyFact, emptyIncidentLog } from "@muster/machines";
import { createMetrics } from "@muster/runtime/metrics";
import { describe, expect, it } from "vitest";
import { watchIncidents } from "../src/controller/incident-watch.ts";

type Fact = Parameters<ReturnType<typeof watchIncidents>["said"]>[0];
const fact = (kind: string, body: object): Fact => ({ kind, body }) as Fact;

const life = { id: "policy-0", role: "policy", incarnation: "i1" };
const suspected = fact("member.suspected", { ...life, evidence: "silence", silentMs: 5_000 });
const recovered = fact("member.recovered", life);
const died = fact("member.died", { ...life, evidence: "exit", silentMs: 0 });
const commit = (step: number) => fact("step.committed", { step, groups: [] });
const released = fact("groups.released", { items: ["1.0"], tokensWasted: 700 });

function watched(earlier = emptyIncidentLog) {
  const metrics = createMetrics();
  const watch = watchIncidents(metrics, earlier);
  const page = async (about: string): Promise<readonly string[]> =>
    (await metrics.render())
      .split("\n")
      .filter((line) => line.startsWith(`muster_${about}`) && !line.includes("_bucket"))
      .map((line) => line.slice("muster_".length));
  return { watch, page };
}

describe("incidents", () => {
  it("are counted by kind, a silence as what it was when it began", async () => {
    const { watch, page } = watched();
    watch.said(suspected, 1_000);
    expect(await page("incidents_total")).toEqual(['incidents_total{kind="member.suspected"} 1']);
    watch.said(died, 9_000);
    expect(await page("incidents_total")).toEqual([
      'incidents_total{kind="member.suspected"} 1',
      'incidents_total{kind="policy.died"} 1',
    ]);
    expect(watch.summary()).toMatchObject({ counts: { "member.suspected": 0, "policy.died": 1 }, open: 1 });
  });

  it("are timed in seconds once they are over: how long until they were noticed, and until the job had recovered", async () => {
    const { watch, page } = watched();
    watch.said(suspected, 1_000);
    expect(await page("incident_")).toEqual([]);
    watch.said(recovered, 3_500);
    const times = [
      'incident_recover_seconds_sum{kind="member.suspected"} 2.5',
      'incident_recover_seconds_count{kind="member.suspected"} 1',
      'incident_detect_seconds_sum{kind="member.suspected"} 5',
      'incident_detect_seconds_count{kind="member.suspected"} 1',
    ];
    expect(await page("incident_")).toEqual(times);
    expect(watch.summary().open).toBe(0);
    // What is over is timed once, whatever follows.
    watch.said(fact("member.suspected", { ...life, id: "policy-1", incarnation: "i2", silentMs: 0 }), 4_000);
    expect(await page("incident_")).toEqual(times);
  });

  it("of earlier terms are shown, and counted and timed by those terms alone", async () => {
    const earlier = [suspected, recovered].reduce(
      (log, said, i) => applyFact(log, { ...said, atMs: 1_000 * (i + 1) } as never),
      emptyIncidentLog,
    );
    const { watch, page } = watched(earlier);
    watch.said(died, 9_000);
    expect(await page("incidents_total")).toEqual(['incidents_total{kind="policy.died"} 1']);
    expect(await page("incident_")).toEqual([]);
    expect(watch.summary()).toMatchObject({ counts: { "member.suspected": 1, "policy.died": 1 }, open: 1 });
  });
});

describe("what incidents cost", () => {
  it("is shown in tokens that were made for nothing", async () => {
    const { watch, page } = watched();
    watch.said(released, 1_000);
    watch.said(released, 2_000);
    expect(await page("tokens_wasted")).toEqual(["tokens_wasted_total 1400"]);
    expect(watch.summary().tokensWasted).toBe(1_400);
  });

  it("is shown as the share of the time that was productive: 1 before there is any, and of all terms", async () => {
    const { watch, page } = watched();
    expect(await page("ettr")).toEqual(["ettr_ratio 1"]);
    expect(watch.summary().ettr).toBeNull();
    watch.said(commit(0), 0);
    expect(await page("ettr")).toEqual(["ettr_ratio 1"]);
    for (let step = 1; step < 4; step++) watch.said(commit(step), 1_000 * step);
    watch.said(died, 3_500);
    expect(await page("ettr")).toEqual(["ettr_ratio 1"]);
    watch.said(commit(4), 10_000);
    expect(await page("ettr")).toEqual(["ettr_ratio 0.4"]);
    expect(watch.summary().ettr).toBe(0.4);
    const before = [0, 1, 2].reduce(
      (log, step) => applyFact(log, { ...commit(step), atMs: 1_000 * step } as never),
      emptyIncidentLog,
    );
    const disturbed = [died, commit(3)].reduce(
      (log, said, i) => applyFact(log, { ...said, atMs: i === 0 ? 2_500 : 6_000 } as never),
      before,
    );
    expect(await watched(disturbed).page("ettr")).toEqual(["ettr_ratio 0.5"]);
  });
});
