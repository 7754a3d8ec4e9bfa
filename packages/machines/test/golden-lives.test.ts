/** What replicas were told in recorded jobs, told again to the machines of today: whoever changes what one does or says sees it here. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { checkpointLogic, type Logic, nodeLogic, policyLogic, rolloutLogic } from "@muster/machines";
import { describe, expect, it } from "vitest";

const folder = new URL("golden/", import.meta.url);

/** The machines by role; what they hear is data here. */
const logics = {
  policy: policyLogic,
  rollout: rolloutLogic,
  checkpoint: checkpointLogic,
  node: nodeLogic,
} as unknown as Readonly<Record<string, Logic<unknown, unknown, { value: unknown; context: unknown }, unknown>>>;

/** A life in one line: of which role, how often it was told something, where it ended, and a digest of all that it did and said. */
function summaryOf(life: string): string {
  const [role, input, ...events] = JSON.parse(life) as [string, ...unknown[]];
  const logic = logics[role];
  if (!logic) throw new Error(`no machine of the role ${role}`);
  let step = logic.init(input);
  const did = [step.effects];
  for (const event of events) {
    step = logic.step(step.snapshot, event);
    did.push(step.effects);
  }
  const { value, context } = step.snapshot;
  const digest = createHash("sha256")
    .update(JSON.stringify([did, context]))
    .digest("hex")
    .slice(0, 12);
  return `${role}, ${events.length} events, ends in ${JSON.stringify(value)}: ${digest}\n`;
}

describe("the machines of today", () => {
  const names = readdirSync(folder).filter((name) => name.endsWith(".lives.gz"));

  it("are told lives of every role", () => {
    const lives = names.flatMap((name) => livesIn(name));
    expect(new Set(lives.map((life) => (JSON.parse(life) as [string])[0]))).toEqual(new Set(Object.keys(logics)));
  });

  it.each(names)("do and say in the lives of %s what was recorded", async (name) => {
    const summaries = livesIn(name).map(summaryOf).join("");
    const advice =
      "a replica does something else than before: if that is meant, run `npm run golden` and say in CHANGELOG.md what";
    await expect(summaries, advice).toMatchFileSnapshot(`golden/${name.replace(".lives.gz", ".lives.digests.txt")}`);
  });
});

function livesIn(name: string): readonly string[] {
  return gunzipSync(readFileSync(new URL(name, folder)))
    .toString("utf8")
    .split("\n")
    .filter((line) => line !== "");
}
