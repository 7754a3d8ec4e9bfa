import { OpenEndKeeper } from "@muster/actors/controller";
import { encodePart, encodeRecord, encodeSnapshot, partsOf } from "@muster/actors/internal";
import { controllerLogic, planOf } from "@muster/machines/controller";
import { describe, expect, it } from "vitest";
import { heldOf, JournalAuditor } from "../src/journal-auditor.ts";
import { shippedConfig } from "./support/config.ts";

type Decision = Parameters<typeof heldOf>[0];

describe("the audit of a journal", () => {
  const state = (stale: number, incarnation = "i1") => ({
    dropped: { stale, duplicate: 0 },
    members: { p0: { incarnation } },
  });
  const event: Decision["event"] = {
    type: "weights.held",
    atMs: 1_000,
    from: "p0",
    role: "policy",
    incarnation: "i1",
    body: { lineage: 0, version: 7, sections: [], addresses: [], bytes: 0, durationMs: 0 },
  };

  it("believes a replica that says what it holds", () => {
    expect(heldOf({ event, before: state(2), after: state(2) })).toBe(event);
  });

  it("passes over a report that came again after newer ones, as the controller did", () => {
    expect(heldOf({ event, before: state(2), after: state(3) })).toBeNull();
  });

  it("passes over a report that came again after the end of its life", () => {
    expect(heldOf({ event, before: state(2, "i2"), after: state(2, "i2") })).toBeNull();
    const gone = { ...state(2), members: {} };
    expect(heldOf({ event, before: gone, after: gone })).toBeNull();
  });
});

describe("an audit that reads along", () => {
  const config = shippedConfig();
  const record = (term: number) => encodeRecord(term, [{ type: "controller.elected", atMs: term, term }]);

  it("takes each record once, however often it is shown", () => {
    const auditor = new JournalAuditor(config);
    for (const seq of [1, 2, 2, 1, 3]) auditor.take(seq, record(seq));
    expect(auditor.nextSeq).toBe(4);
    expect(auditor.audit()).toMatchObject({ records: 3, terms: 3, violations: [] });
  });

  it("fails when records were removed before it could read them", () => {
    const auditor = new JournalAuditor(config);
    for (const seq of [1, 5, 6]) auditor.take(seq, record(seq));
    const detail = "records 2 to 4 of the journal were removed before they were read";
    expect(auditor.audit()).toMatchObject({ records: 1, violations: [{ invariant: "audit", detail }] });
  });

  it("passes over a record that is of nobody", () => {
    const auditor = new JournalAuditor(config);
    auditor.take(1, Uint8Array.of(193));
    auditor.take(2, record(2));
    expect(auditor.audit()).toMatchObject({ records: 1, foreign: { count: 1 }, violations: [] });
  });

  it("fails at a record that can not be read, and on which a controller built", () => {
    const auditor = new JournalAuditor(config);
    auditor.take(1, Uint8Array.of(193));
    auditor.take(2, encodeRecord(2, [{ type: "controller.elected", atMs: 2, term: 2 }], 0, { by: "i2", after: 1 }));
    expect(auditor.audit()).toMatchObject({ records: 0, violations: [{ invariant: "audit" }] });
  });

  it("goes on from a snapshot when the beginning is gone, and does not follow what other rules decided", () => {
    const rules = { digest: "own", build: "1" };
    const [from, other] = [
      new JournalAuditor(config, { mayBeginLate: true, rules }),
      new JournalAuditor(config, { rules }),
    ];
    const elected = (term: number, digest: string) =>
      encodeRecord(term, [{ type: "controller.elected", atMs: term, term, rules: { digest, build: "0" } }]);
    const { snapshot } = controllerLogic.init(planOf(config));
    const content = { ...snapshot.context, ...new OpenEndKeeper().get(), rules };
    const [part] = partsOf(encodeSnapshot(content), 9, 1e6);
    if (!part) throw new Error("a snapshot has a part");
    from.take(7, elected(1, "own"));
    from.take(8, elected(2, "own"));
    from.take(9, encodePart(2, part));
    from.take(10, elected(3, "own"));
    expect(from.audit()).toMatchObject({ records: 4, firstSeq: 7, folded: 1, otherRules: null, violations: [] });
    other.take(1, elected(1, "own"));
    other.take(2, elected(2, "others"));
    expect(other.audit()).toMatchObject({ records: 2, folded: 1, otherRules: { digest: "others" }, violations: [] });
  });
});
