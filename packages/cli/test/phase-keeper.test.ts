/** What `muster run --rl-phase` does with what it hears, whoever else spoke to the controller before. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLogger } from "@muster/base";
import type { EventMessage, JobClient } from "@muster/client";
import type { Body, JobConfig, RlPhase } from "@muster/protocol";
import { makeTempDirectory, startTestServer } from "@muster/testkit";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PhaseKeeper, type PhaseOptions, type PhaseTools } from "../src/run/phase-keeper.ts";

let folder: Awaited<ReturnType<typeof makeTempDirectory>>;
beforeEach(async () => {
  folder = await makeTempDirectory();
});
afterEach(() => folder.remove());

const event = (kind: string, body: object): EventMessage => ({ kind, body }) as never;
const done = (commandId: string): EventMessage =>
  event("command.done", { commandId, kind: "job.phase", by: "op", outcome: "done", detail: "" });
const ended = (phase: RlPhase, groups: number, of: number): EventMessage =>
  event("phase.ended", { phase, step: 4, version: 3, groups, of, reason: "some are missing" });

interface Heard {
  readonly keeper: PhaseKeeper;
  readonly told: Body<"job.phase">[];
  readonly notes: string[];
  readonly over: string[];
  readonly failed: string[];
}

/** A keeper, and a controller that does as it is told, or is not there. */
function keeperOf(
  options: Partial<PhaseOptions>,
  status: JobClient["status"] | null = null,
  broker: Pick<PhaseTools, "url" | "credentials"> = { url: "", credentials: {} },
): Heard {
  const heard = {
    told: [] as Body<"job.phase">[],
    notes: [] as string[],
    over: [] as string[],
    failed: [] as string[],
  };
  const command = async (_: string, body: Body<"job.phase">) => {
    heard.told.push(body);
    if (status) throw new Error("the broker is away");
    keeper.take(done(body.commandId ?? "c-1"));
    return { outcome: "done" as const, detail: "" };
  };
  const keeper = new PhaseKeeper({
    ...{ phase: "update", trajectories: null, quorum: null, ...options },
    ...{ ...broker, config, directory: folder.path, logger: silentLogger },
    client: { command, status } as never,
    note: (line) => heard.notes.push(line),
    over: (reason) => heard.over.push(reason),
    failed: (reason) => heard.failed.push(reason),
  });
  return { keeper, ...heard };
}

it("ends with its phase, though the controller answers a command of an earlier life besides, or its own twice", async () => {
  const { keeper, over, told } = keeperOf({});
  keeper.begin();
  keeper.take(done("c-of-a-run-that-was-killed"));
  await vi.waitFor(() => expect(told.length).toBe(1));
  keeper.take(done(told[0]?.commandId ?? "c-1"));
  keeper.take(ended("update", 1, 4));
  await vi.waitFor(() => expect(over).toEqual(["phase update is over: some are missing"]), { timeout: 2_000 });
});

it("asks for a step without what is missing when the share is there exactly", async () => {
  const { keeper, told } = keeperOf({ quorum: 0.55 });
  keeper.begin();
  await vi.waitFor(() => expect(told.length).toBe(1));
  keeper.take(ended("update", 55, 100));
  await vi.waitFor(() => expect(told[1]?.partial).toEqual({ step: 4, quorum: 0.55 }), { timeout: 2_000 });
});

it("forgets that a job does one thing only when the controller knows of it, and not before", async () => {
  const mark = join(folder.path, "rl-phase");
  writeFileSync(mark, "rollout\n");
  const away = keeperOf({ phase: "both" }, async () => null);
  away.keeper.begin();
  await vi.waitFor(() => expect(away.failed.length).toBe(1));
  expect(existsSync(mark)).toBe(true);
  keeperOf({ phase: "both" }).keeper.begin();
  await vi.waitFor(() => expect(existsSync(mark)).toBe(false));
});

it("knows from a committed step where the job is: its status may be a second old", async () => {
  const server = await startTestServer({ job: "j" });
  try {
    writeFileSync(join(folder.path, "a.trajectories"), `${JSON.stringify(head)}\nx`);
    const status = async () => ({ step: 1, version: 1, atMs: 0 }) as never;
    const options = { phase: "both" as const, trajectories: folder.path };
    const { keeper, notes } = keeperOf(options, status, { url: server.url, credentials: server.server.credentials });
    keeper.take(event("step.committed", { step: 3, version: 3 }));
    await vi.waitFor(() => expect(notes).toEqual([expect.stringContaining("step 3 is trained already")]));
    await keeper.close();
  } finally {
    await server.close();
  }
});

it("goes on with a job that samples what is missing when its files can not be read, and says so once", async () => {
  const { keeper, notes, failed } = keeperOf({ phase: "both", trajectories: "/nowhere" });
  for (let step = 1; step < 4; step++) keeper.take(event("step.committed", { step, version: step }));
  await vi.waitFor(() => expect(notes).toEqual([expect.stringContaining("no groups are taken from files now")]));
  expect(failed).toEqual([]);
});

const config = {
  ...{ job: "j", seed: 1, steps: 9, stalenessMax: 0, task: { name: "t" }, batch: { groupsPerStep: 1, groupSize: 1 } },
  ...{ rollout: { fanOut: 1 }, sampling: { temperature: 1, maxNewTokens: 1 }, model: { vocab: 2, maxContext: 2 } },
} as unknown as JobConfig;

/** First line of a file of step 3 of that job. */
const head = {
  ...{ format: "muster-trajectories", v: 1, job: "a", step: 3, weights: { version: 2, sections: [] } },
  source: {
    ...{ "job.seed": 1, "job.task": "t", "batch.groups_per_step": 1, "batch.group_size": 1, "rollout.fan_out": 1 },
    ...{ "sampling.temperature": 1, "sampling.max_new_tokens": 1, vocabulary: 2, context: 2 },
  },
  ...{ groups: [{ index: 0, attempt: 0, version: 2 }], bytes: 1, sha256: "0".repeat(64) },
};
