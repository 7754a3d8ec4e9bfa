/** `muster status --watch` on a real terminal. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { ptyMissing, startOnTerminal, waitFor, windowOf } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fitted } from "../../src/terminal/screen.ts";
import { table } from "../../src/view/table.ts";
import { endOf, type FakeJob, startFakeJob, statusOf } from "../support/fake-job.ts";
import { buildOnce, startMuster } from "../support/muster.ts";

const timeoutMs = 30_000;
const small = { rows: 24, columns: 80 };

describe("what fits into a window", () => {
  it("cuts long rows, and says how many rows there are besides", () => {
    expect(fitted("abcdef\nb", { columns: 4, rows: 2 })).toBe("abc…\nb");
    expect(fitted("a\nb\nc\nd", { columns: 40, rows: 3 })).toBe("a\nb\n… 2 more lines: make the window taller");
  });

  it("leaves out the columns that can best be spared, and none where there is room", () => {
    const columns = [{ title: "NAME" }, { title: "LAG", spare: 2 }, { title: "RSS", spare: 1 }];
    const row = ["policy-0", "2 ms", "128 MiB"];
    expect(table(columns, [row])[1]).toBe("policy-0  2 ms  128 MiB");
    expect(table(columns, [row], 18)[1]).toBe("policy-0  128 MiB");
    expect(table(columns, [row], 10)[1]).toBe("policy-0");
  });
});

describe("status --watch", { timeout: timeoutMs }, () => {
  let job: FakeJob;
  beforeAll(async () => {
    buildOnce();
    job = await startFakeJob("shown");
  }, 120_000);
  afterAll(() => job.close());

  it("fills a window of 80 × 24 and no more, and another one after a resize", async ({ skip }) => {
    skip(ptyMissing !== null, ptyMissing ?? "");
    const [policy, rollout] = statusOf("shown").members;
    const crowd = Array.from({ length: 40 }, (_, i) => ({ ...rollout!, id: `rollout-${i}` }));
    // A host that is slow to show it would show that it is old, too.
    await job.draw(statusOf("shown", { atMs: Date.now() + timeoutMs, members: [policy!, ...crowd] }));
    const watching = startOnTerminal(["status", "--watch", ...job.where], small);
    try {
      await waitFor(() => watching.output().includes("make the window taller"), { what: "the status", timeoutMs });
      const shown = windowOf(watching.output(), small).slice(-small.rows);
      expect(shown[0]).toMatch(/^job +shown, sampling, term 2$/);
      expect(shown.every((line) => line.length <= small.columns)).toBe(true);
      expect(shown.findIndex((line) => /^MEMBER +ROLE +HEALTH/.test(line))).toBeGreaterThan(0);
      expect(shown.at(-2)).toMatch(/^… \d+ more lines: make the window taller$/);

      watching.resize({ rows: 70, columns: 140 });
      await waitFor(() => watching.output().includes("rollout-39"), { what: "all members", timeoutMs });
      await waitFor(() => watching.output().includes("RSS"), { what: "all columns", timeoutMs });
      watching.type("\u0003");
      expect(await watching.ended).toBe(130);
    } finally {
      watching.kill();
    }
  });

  it("says how the job ended when it sees that, and when the broker has gone with the job", async () => {
    await job.draw(statusOf("shown", { step: 4 }));
    const watching = startMuster(["status", "--watch", ...job.where]);
    await waitFor(() => watching.stdout().includes("4/10"), { what: "the first status", timeoutMs });
    const end = { kind: "job.ended", at_ms: 5, body: endOf() };
    appendFileSync(join(job.runs, "shown", "events.jsonl"), `${JSON.stringify(end)}\n`);
    await job.stopBroker();
    const { code, stdout, stderr } = await watching.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/job shown is over: stopped \(enough\); see .*report\.html$/m);
  });
});
