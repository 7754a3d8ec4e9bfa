import { decodeStatus, statusKey } from "@muster/protocol";
import { waitFor } from "@muster/testkit";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Controller } from "../src/controller/index.ts";
import { rulesOfProgram } from "../src/controller/rules.ts";
import { encodeRecord } from "../src/internal.ts";
import { digestIn, expectBalanced, heldDigests, plain } from "./support/proofs.ts";
import { policyRole } from "./support/roles.ts";
import { digestOfLocalTraining, smallConfig } from "./support/small-config.ts";
import { endOf, endsOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let expected: string;
let job: SmallJob;
beforeAll(async () => {
  expected = await digestOfLocalTraining(smallConfig("never-written"));
});
afterEach(() => job.close());

describe("a controller that is told to let go in the middle of a job", () => {
  it("leaves its whole state in the journal, and the next one ends the job with the same weights", async () => {
    job = await openJob();
    const first = await job.startController();
    const replicas = job.startTeam({ policy: 2, rollout: 2 });
    await job.when("step.committed", ({ step }) => step === 1);
    first.abort("maintenance");
    expect(await endOf(first)).toEqual({ outcome: "aborted", reason: "maintenance" });
    const left = await job.replay();
    expect(plain(left.snapshot)).toEqual(plain(first.snapshot()));
    expect(left.snapshot.context.state.ending).toBeNull();

    const second = await job.startController();
    expect((await endOf(second)).outcome).toBe("done");
    expect(second.snapshot().context.state.term).toBe(2);
    expect(digestIn(second.snapshot())).toBe(expected);
    expectBalanced(second.snapshot().context.state);
    expect((await endsOf(replicas)).map(({ outcome }) => outcome)).toEqual(replicas.map(() => "left"));
    expect(replicas.flatMap(({ lives }) => lives)).toHaveLength(replicas.length);
  });

  it("is followed by one that says no fact a second time, and whose status tells of both terms", async () => {
    job = await openJob();
    const first = await job.startController();
    job.startTeam({ policy: 2, rollout: 1 });
    await job.when("step.committed", ({ step }) => step === 2);
    first.abort("maintenance");
    await endOf(first);
    const second = await job.startController();
    await endOf(second);
    const shown = decodeStatus((await job.transport.state().get(statusKey))?.value ?? new Uint8Array(), "job");
    // One commit fell into the second term: the share of productive time is that of both.
    expect(shown).toMatchObject({ term: 2, incidents: { counts: { "controller.changed": 1 }, open: 0 } });
    expect(shown.incidents.ettr).toBeGreaterThan(0);
    expect(shown.incidents.ettr).toBeLessThanOrEqual(1);
    expect(job.events("job.started").map(({ body }) => body.term)).toEqual([1, 2]);
    expect(job.events("step.committed").map(({ body }) => body.step)).toEqual([1, 2, 3]);
    const ids = job.allEvents().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe("a controller after one that ended before it could speak", () => {
  it("says what that one had written down, under the ids that it would have had", async () => {
    job = await openJob();
    const written = encodeRecord(1, [{ type: "controller.elected", atMs: 5, term: 1, rules: rulesOfProgram() }]);
    await job.transport.journal().append(written, 0, "r1");
    const controller = await job.startController();
    await job.when("job.started", ({ term }) => term === 2);
    const said = job.events("job.started").map(({ id, term, body }) => ({ id, term, of: body.term }));
    expect(said).toEqual([
      { id: "e1.0", term: 2, of: 1 },
      { id: "e2.0", term: 2, of: 2 },
    ]);
    controller.abort("the test is over");
  });

  it("does not begin its term on a journal of which it can not read what controllers wrote", async () => {
    job = await openJob();
    const journal = job.transport.journal();
    await journal.append(Uint8Array.of(193), 0, "r1");
    const elected = { type: "controller.elected", atMs: 5, term: 1, rules: rulesOfProgram() } as const;
    await journal.append(encodeRecord(1, [elected], 5, { by: "c1", after: 1 }), 1, "r2");
    await expect(job.startController()).rejects.toMatchObject({ code: "MUSTER_ERR_JOURNAL_MALFORMED" });
    expect(await journal.head()).toBe(2);
    expect(job.allEvents()).toEqual([]);
  });
});

/** The first step is sampled and the first weights are evaluated: without its second policy replica the job can not go on. */
function isAtRest(controller: Controller): boolean {
  const { groups, evaluatedVersion, members } = controller.snapshot().context.state;
  const isSampled = Object.keys(groups[1]?.receipts ?? {}).length === 4;
  return isSampled && evaluatedVersion === 0 && Object.values(members).every(({ order }) => order === null);
}

describe("two controllers of one job", () => {
  it("are one as soon as the older one writes: it finds itself fenced, and the job goes on under the younger", async () => {
    job = await openJob();
    const older = await job.startController();
    const early = job.startTeam({ policy: 1, rollout: 1 });
    await waitFor(() => isAtRest(older), {
      what: "everything done that needs no second policy replica",
      timeoutMs: 20_000,
    });
    const younger = await job.startController();
    await job.when("job.started", ({ term }) => term === 2);
    job.startReplica(policyRole, "policy-1");

    const end = await endOf(older);
    expect(end.outcome).toBe("fenced");
    expect(end.reason).toContain("written by another controller");
    expect((await endOf(younger)).outcome).toBe("done");
    expect(digestIn(younger.snapshot())).toBe(expected);
    expectBalanced(younger.snapshot().context.state);
    const replayed = await job.replay();
    expect(replayed.term).toBe(2);
    expect(plain(replayed.snapshot)).toEqual(plain(younger.snapshot()));
    expect((await endsOf(early)).map(({ outcome }) => outcome)).toEqual(["left", "left", "left"]);
    for (const digests of Object.values(await heldDigests(job))) expect(digests).toHaveLength(1);
  });
});
