import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type ControllerEvent, controllerLogic, planOf } from "@muster/machines/controller";
import { makeTempDirectory } from "@muster/testkit";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { digestOfModules, rulesOfProgram } from "../src/controller/rules.ts";
import { encodeRecord, replayJournal } from "../src/internal.ts";
import { plain } from "./support/proofs.ts";
import { smallConfig } from "./support/small-config.ts";
import { endOf, openJob } from "./support/small-job.ts";
import { type Program, WrittenJournal } from "./support/written-journal.ts";

const plan = planOf(smallConfig("never-written"));

const one: Program = { rules: { digest: "a", build: "1.0.0" }, logic: controllerLogic };

/** A program that admits nobody whose name ends in 1. */
const other: Program = {
  rules: { digest: "b", build: "1.1.0" },
  logic: {
    ...controllerLogic,
    step: (snapshot, event) =>
      "from" in event && event.from.endsWith("1") ? { snapshot, effects: [] } : controllerLogic.step(snapshot, event),
  },
};

const register = (id: string, atMs: number): ControllerEvent => ({
  type: "replica.register",
  atMs,
  from: id,
  role: "policy",
  incarnation: `${id}-i1`,
  body: { role: "policy", host: "h", pid: 1, engineBuild: "b" },
});
const work = ["policy-0", "policy-1", "policy-2"].map((id, i) => [register(id, i + 1)]);

const refused = { code: "MUSTER_ERR_JOURNAL_OTHER_RULES" };

describe("a journal that another program wrote", () => {
  it("is refused with what to do when its controller was killed: the same inputs would come to another state", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 100 });
    await journal.writeTerm(work, { by: one });
    const blind = await replayJournal(journal.transport.journal(), plan, other.logic);
    expect(Object.keys(blind.snapshot.context.state.members)).not.toEqual(
      Object.keys(journal.lived?.context.state.members ?? {}),
    );
    await expect(journal.writeTerm([], { by: other })).rejects.toMatchObject({
      ...refused,
      message: expect.stringMatching(
        /^Muster 1\.0\.0 with rules a wrote records 1 to 4 of the journal, and this program, Muster 1\.1\.0 with rules b, .* end it with Ctrl-C or SIGTERM: its last record is a snapshot/,
      ),
    });
    expect(await journal.left()).toEqual([1, 2, 3, 4]);
  });

  it("is gone on from when its controller ended in order: the state is the one that was acted on", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 100, partBytes: 600 });
    await journal.writeTerm(work, { by: one, isEnded: true });
    const next = await replayJournal(journal.transport.journal(), plan, other.logic, other.rules);
    expect(plain(next.snapshot)).toEqual(journal.lived && plain(journal.lived));
    expect((await journal.left())[0]).toBe(1);
    await journal.writeTerm([[register("rollout-1", 9)]], { by: other, isEnded: true });
    expect((await journal.left())[0]).toBe(5);
    await journal.writeTerm([], { by: one });
    expect(journal.lived?.context.state.term).toBe(3);
  });

  it("is refused when the snapshot at its end is not whole", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 100, partBytes: 600 });
    journal.mishap = (call) => {
      if (call === "append" && journal.parts.length === 2) throw new Error("killed");
    };
    await journal.writeTerm(work, { by: one, isEnded: true });
    journal.mishap = () => {};
    await expect(journal.writeTerm([], { by: other })).rejects.toMatchObject(refused);
    await journal.writeTerm([], { by: one, isEnded: true });
    await journal.writeTerm([], { by: other });
  });

  it("is refused when it does not say by which rules it was written, and no snapshot ends it", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 100 });
    const elected = encodeRecord(1, [{ type: "controller.elected", atMs: 1, term: 1 }]);
    await journal.transport.journal().append(elected, 0, "r1");
    await expect(journal.writeTerm([], { by: one })).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining("a version of Muster that did not say its rules wrote record 1 of the journal"),
    });
  });

  it("ends with no second snapshot when nothing came since the last one", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 4 });
    await journal.writeTerm(work, { by: one, isEnded: true });
    expect(journal.parts).toEqual([5]);
  });

  it("is either refused or leads to what was acted on, whoever wrote what, and however each of them ended", async () => {
    const seen = { refused: 0, taken: 0 };
    const termOf = fc.record({
      by: fc.constantFrom(one, other),
      isEnded: fc.boolean(),
      work: fc.subarray(work),
      killedAt: fc.option(fc.integer({ min: 1, max: 9 })),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(termOf, { minLength: 2, maxLength: 6 }),
        fc.integer({ min: 2, max: 9 }),
        async (terms, records) => {
          const journal = new WrittenJournal(plan, { snapshotRecords: records, partBytes: 2_000 });
          for (const { by, isEnded, work, killedAt } of terms) {
            journal.mishap = () => {};
            const next = await replayJournal(journal.transport.journal(), plan, by.logic, by.rules).catch(() => null);
            seen[next ? "taken" : "refused"]++;
            if (next && journal.lived) expect(plain(next.snapshot)).toEqual(plain(journal.lived));
            let calls = 0;
            journal.mishap = (call) => {
              if (call !== "purge" && ++calls === killedAt) throw new Error("killed");
            };
            await journal.writeTerm(work, { by, isEnded }).catch((error: Error) => {
              if (next) expect(error.message).toBe("killed");
              else expect(error).toMatchObject(refused);
            });
          }
        },
      ),
      { numRuns: 60 },
    );
    expect(Math.min(seen.refused, seen.taken)).toBeGreaterThan(30);
  });
});

describe("a controller that is told to let go", () => {
  it("leaves a snapshot as its last record, from which one with other rules ends the job", async () => {
    const job = await openJob();
    try {
      const first = await job.startController();
      job.startTeam({ policy: 2, rollout: 2 });
      await job.when("step.committed", ({ step }) => step === 1);
      first.abort("an update");
      await endOf(first);
      const records: ReturnType<typeof decodeRecord>[] = [];
      for await (const { seq, data } of job.transport.journal().read(1)) records.push(decodeRecord(seq, data));
      expect(records.at(-1)?.part).toMatchObject({ index: 0, count: 1 });
      const second = await job.startController({ rules: other.rules });
      expect((await endOf(second)).outcome).toBe("done");
      await expect(job.startController({ rules: { digest: "c", build: "1.2.0" } })).resolves.toBeDefined();
    } finally {
      await job.close();
    }
  });
});

describe("the digest of the rules", () => {
  const module = "/** What it is. */\nexport function f(a) {\n  // why\n  return a < 2;\n}\n";

  const digestOf = async (files: Readonly<Record<string, string>>): Promise<string> => {
    const folder = await makeTempDirectory();
    try {
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(join(folder.path, path, ".."), { recursive: true });
        writeFileSync(join(folder.path, path), text);
      }
      return digestOfModules([{ name: "machines", url: pathToFileURL(`${folder.path}/`) }]);
    } finally {
      await folder.remove();
    }
  };

  it("does not depend on the folder, on comments, on indentation, or on what is no module", async () => {
    const digest = await digestOf({ "a.js": module });
    expect(digest).toMatch(/^[0-9a-f]{32}$/);
    const reworded = module.replace("What it is.", "Something\n * else.").replace("// why", "//   because\r");
    const shifted = reworded.replaceAll("\n", "\n\n  ");
    expect(await digestOf({ "a.js": shifted, "a.d.ts": "x", "a.js.map": "y", "notes/b.txt": "z" })).toBe(digest);
  });

  it("changes with every change of code, with the name of a module, and with one more of them", async () => {
    const digests = [
      await digestOf({ "a.js": module }),
      await digestOf({ "a.js": module.replace("2", "3") }),
      await digestOf({ "a.js": module.replace("<", "<=") }),
      await digestOf({ "b.js": module }),
      await digestOf({ "in/a.js": module }),
      await digestOf({ "a.js": module, "b.js": "" }),
    ];
    expect(new Set(digests).size).toBe(digests.length);
  });

  it("is that of the modules that were loaded: a changed copy of the controller's logic has another one", async () => {
    const folder = await makeTempDirectory();
    try {
      const machines = new URL("../../machines/src/", import.meta.url);
      cpSync(machines, folder.path, { recursive: true });
      const here = digestOfModules([{ name: "machines", url: machines }]);
      const copy = { name: "machines", url: pathToFileURL(`${folder.path}/`) };
      expect(digestOfModules([copy])).toBe(here);
      rmSync(join(folder.path, "controller/groups/ledger.ts"));
      expect(digestOfModules([copy])).not.toBe(here);
    } finally {
      await folder.remove();
    }
    expect(rulesOfProgram()).toEqual({
      digest: expect.stringMatching(/^[0-9a-f]{32}$/),
      build: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    });
  });
});
