/** The audit of a run of which there is little: what it says of the journal. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OpenEndKeeper, rulesOfProgram } from "@muster/actors/controller";
import { encodePart, encodeRecord, encodeSnapshot, partsOf } from "@muster/actors/internal";
import { controllerLogic, planOf } from "@muster/machines/controller";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkRun, type JournalBytes, type RunAudit } from "../../src/run/check-run.ts";
import { shippedConfig } from "../support/config.ts";

const config = shippedConfig();
const rules = rulesOfProgram();
let path: string;
beforeAll(() => {
  path = mkdtempSync(join(tmpdir(), "muster-run-"));
});
afterAll(() => rmSync(path, { recursive: true }));

/** Audits a run with these records and nothing else. */
async function audit(...records: readonly JournalBytes[]): Promise<RunAudit> {
  const journal = (async function* () {
    yield* records;
  })();
  return await checkRun({ path, config, events: [], isRunning: false }, { journal });
}

const elected = (seq: number, of = rules): JournalBytes => ({
  seq,
  data: encodeRecord(seq, [{ type: "controller.elected", atMs: seq, term: seq, rules: of }]),
});

function snapshotAt(seq: number): JournalBytes {
  const { snapshot } = controllerLogic.init(planOf(config));
  const bytes = encodeSnapshot({ ...snapshot.context, ...new OpenEndKeeper().get(), rules });
  const [part] = partsOf(bytes, seq, 1e6);
  if (!part) throw new Error("a snapshot has a part");
  return { seq, data: encodePart(seq, part) };
}

const ofJournal = ({ unchecked }: RunAudit): readonly string[] =>
  unchecked.map(({ what }) => what).filter((what) => what.includes("journal"));

describe("an audit says of the journal", () => {
  it("nothing when it is there from its first record on", async () => {
    const found = await audit(elected(1), elected(2));
    expect(found.checked.records).toBe(2);
    expect([found.violations, ofJournal(found)]).toEqual([[], []]);
  });

  it("which records are gone, from the second on that are", async () => {
    const found = await audit(snapshotAt(2), elected(3));
    expect([found.violations, ofJournal(found)]).toEqual([[], ["records 1 to 1 of the journal"]]);
    expect(ofJournal(await audit(snapshotAt(7), elected(8)))).toEqual(["records 1 to 6 of the journal"]);
  });

  it("that it is empty", async () => {
    expect(ofJournal(await audit())).toEqual(["the journal"]);
  });

  it("what it does not follow because other rules decided it", async () => {
    const found = await audit(elected(1), elected(2, { digest: "others", build: "9.9" }), elected(3));
    expect(found.unchecked).toContainEqual({
      what: "what follows from 2 records of the journal",
      why: expect.stringContaining("Muster 9.9 wrote them by other rules"),
    });
  });

  it("where it can not be read on (S4), and which records are of nobody", async () => {
    const gap = await audit(elected(1), elected(5));
    expect(gap.violations).toMatchObject([{ rule: "S4", file: "the journal", seq: 1 }]);
    const foreign = await audit({ seq: 1, data: Uint8Array.of(193) }, elected(2));
    expect(foreign.notes).toEqual([expect.stringMatching(/^1 records of the journal are of nobody/)]);
  });
});
