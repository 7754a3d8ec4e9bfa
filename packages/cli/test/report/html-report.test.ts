import { describe, expect, it } from "vitest";
import { htmlReport, type RunRecord } from "../../src/report/index.ts";
import { runRecord } from "./record.ts";

/** Every start tag of a document with its attributes, read as a browser would: quoted values hold no tags. */
function tagsOf(page: string): { name: string; attributes: string }[] {
  return [...page.matchAll(/<([a-z!][a-z0-9]*)((?:\s+[a-zA-Z:-]+(?:="[^"]*")?)*)\s*\/?>/gi)].map((match) => ({
    name: (match[1] ?? "").toLowerCase(),
    attributes: match[2] ?? "",
  }));
}

const hostileTexts = [
  "<img src=x onerror=alert(1)>",
  "</title></style></svg><script>alert(1)</script>",
  '" onload="alert(1)" x="',
  "' onclick='alert(1)",
  "javascript:alert(1)",
  "&lt;script&gt;",
  "\u001b[31mred\u001b]0;title\u0007",
  "\u202egnp.exe\u2066",
  "-->]]><!--",
  "a".repeat(10_000),
];

/** A record in which every text is hostile. */
function hostileRecord(text: string): RunRecord {
  const record = runRecord();
  return {
    ...record,
    summary: {
      ...record.summary,
      job: text,
      weights_hash: text,
      incidents: [{ kind: text, at_ms: 1000, subject: text, detail: text }],
    },
    members: [{ id: text, role: text, incarnation: text, joined_ms: 0, left_ms: 5, how: "died" }],
    samples: record.samples.map((sample) => ({
      ...sample,
      ...{ group: text, replica: text, prompt: text, answer: text, completion: text, error: text },
    })),
    steps: record.steps.map((step) => ({ ...step, held: { [text]: 1 } })),
    status: { ...record.status, state: "failed", reason: text },
    config_text: text,
  };
}

describe("htmlReport", () => {
  it("shows every headline figure, the ledger as an equation, and each incident", () => {
    const text = htmlReport(runRecord())
      .replace(/<style>.*?<\/style>/s, "")
      .replace(/<[^>]+>/g, " ")
      .replace(/\s+/g, " ");
    for (const part of [
      "dates",
      "0.938 from 0.431",
      "95.1 % from 54.1 %",
      "61.4k",
      "0, 0 of 256,000 trajectories",
      "256,000 = 255,981 + 11 + 8 + 0",
      "data-plane socket closed during reduce of step 92",
      "34 ms",
      "groups_per_step = 128",
    ]) {
      expect(text).toContain(part);
    }
  });

  it("is one file that asks for nothing and runs nothing", () => {
    const page = htmlReport(runRecord());
    expect(page.startsWith('<!doctype html>\n<html lang="en">')).toBe(true);
    expect(page).toContain("default-src 'none'");
    const names = new Set(tagsOf(page).map((tag) => tag.name));
    for (const name of ["script", "link", "img", "iframe", "object", "image", "use", "foreignobject", "a"]) {
      expect(names).not.toContain(name);
    }
    expect(page).not.toMatch(/url\(|@import|https?:/);
    expect(page.length).toBeLessThan(400_000);
  });

  it("gives every chart a title and a description, and every table head cell a scope", () => {
    const page = htmlReport(runRecord());
    const charts = [...page.matchAll(/<svg [^>]*>(.{0,60})/gs)];
    expect(charts).toHaveLength(16);
    for (const chart of charts) {
      expect(chart[0]).toContain('role="img"');
      expect(chart[1]).toMatch(/^<title>[^<]+<\/title><desc>/);
    }
    for (const tag of tagsOf(page).filter(({ name }) => name === "th")) expect(tag.attributes).toContain("scope=");
  });

  it("draws the gap of log-probabilities and the KL to a reference only where a step has them", () => {
    const record = runRecord();
    const titles = (patch: object): number[] => {
      const page = htmlReport({ ...record, steps: record.steps.map((step) => ({ ...step, ...patch })) });
      return ["Log-prob gap", "KL to the reference"].map((title) => page.split(`<title>${title}</title>`).length - 1);
    };
    expect(titles({})).toEqual([1, 0]);
    expect(titles({ kl_reference: 0.01 })).toEqual([1, 1]);
    expect(titles({ logprob_gap: null, logprob_gap_max: null })).toEqual([0, 0]);
    // Lines that an earlier version of Muster wrote.
    expect(titles({ logprob_gap: undefined, logprob_gap_max: undefined, kl_reference: undefined })).toEqual([0, 0]);
  });

  it("says the loss on held-out rows where it was measured, in place of answers that nobody gave", () => {
    const { summary, steps, ...record } = runRecord();
    const losses = { held_out_loss_first: 1.5, held_out_loss_last: 0.25 };
    const measured = steps.map((step) => ({ ...step, held_out_loss: step.step % 50 === 0 ? 1 / step.step : null }));
    const both = htmlReport({ ...record, steps: measured, summary: { ...summary, ...losses } });
    expect(both).toContain("<title>Held-out loss</title>");
    expect(both).toMatch(/Held-out exact match<\/dt><dd[^>]*>[^<]*<small>[^<]*; loss 0\.250, from 1\.500</);
    const unanswered = { ...summary, ...losses, eval_first: null, eval_last: null };
    expect(htmlReport({ ...record, steps: measured, summary: unanswered })).toMatch(
      /<dt>Held-out loss<\/dt><dd[^>]*>0\.250<small>from 1\.500</,
    );
    expect(htmlReport({ ...record, steps, summary })).not.toContain("Held-out loss");
  });

  it("tells a job without rewards by its loss", () => {
    const { summary, steps, ...record } = runRecord();
    const none = { reward: null, reward_spread: null, reward_least: null, reward_most: null, even_groups: null };
    const page = htmlReport({
      ...record,
      summary: { ...summary, reward_first: null, reward_last: null, loss_last: 0.125 },
      steps: steps.map((step) => ({ ...step, ...none, approx_kl: null })),
    });
    expect(page).toMatch(/<dt>Loss<\/dt><dd class="">0\.125/);
    for (const absent of ["Reward", "NaN", "Approximate KL", "Groups without advantage"])
      expect(page.split(absent)).toHaveLength(1);
  });

  it("draws one lane for each replica in natural order, one bar for each life, and marks deaths", () => {
    const page = htmlReport(runRecord());
    expect([...page.matchAll(/class="name"[^>]*>([a-z0-9-]+)</g)].map((match) => match[1])).toEqual([
      "policy-1",
      "policy-2",
      "rollout-1",
      "rollout-2",
      "rollout-10",
      "checkpoint-1",
    ]);
    const bars = tagsOf(page).filter(({ name, attributes }) => name === "rect" && !/window|hit/.test(attributes));
    expect(bars).toHaveLength(8);
    expect(page.match(/class="death"/g)).toHaveLength(2);
    expect(page).toContain("policy-1 a1: joined at 300 ms, died at 18 s");
  });

  it.each(hostileTexts.map((text) => [text.slice(0, 30), text]))("lets no text become markup: %s", (_, text) => {
    const quiet = htmlReport(hostileRecord("quiet"));
    const page = htmlReport(hostileRecord(text));
    const shapeOf = (source: string): string[] =>
      tagsOf(source).map((tag) => `${tag.name} ${tag.attributes.replace(/="[^"]*"/g, "")}`);
    expect(shapeOf(page)).toEqual(shapeOf(quiet));
    expect(page.split("<").length).toBe(quiet.split("<").length);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: there must be none
    expect(page).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
  });

  it("bounds long names, so that one replica cannot fill the page", () => {
    const quiet = htmlReport(hostileRecord("quiet")).length;
    const { config_text: _, ...long } = hostileRecord("n".repeat(1_000_000));
    expect(htmlReport({ ...long, config_text: "" }).length).toBeLessThan(quiet + 30_000);
  });

  it("thins a long run and counts what it does not draw", () => {
    const record = runRecord();
    const [step] = record.steps;
    const [member] = record.members;
    const page = htmlReport({
      ...record,
      steps: Array.from({ length: 100_000 }, (_, index) => ({ ...step!, step: index, reward: index / 1e5 })),
      members: Array.from({ length: 1_000 }, (_, index) => ({ ...member!, id: `rollout-${index}` })),
    });
    expect(page.length).toBeLessThan(500_000);
    expect(page).toContain("800 more replicas are not drawn.");
  });

  it("shows the root causes of aborted trajectories with their stacks, escaped, and nothing where there are none", () => {
    const cause = {
      name: "Type<b>Error",
      message: "</table><script>alert(1)</script>",
      frame: "judge (my-reward.mjs:3:9)",
      stack: "TypeError: x\n    at judge (my-reward.mjs:3:9)",
      sample: "3.80/1",
      count: 12,
    };
    const page = htmlReport(runRecord({ causes: [cause] }));
    expect(page).toContain("<summary>stack</summary><pre>TypeError: x\n    at judge");
    expect(page).toContain("3.80/1");
    expect(page).not.toMatch(/<script|Type<b>/);
    expect(htmlReport(runRecord())).not.toContain("Given up");
  });

  it("says so when there is nothing to show, and when a number is none", () => {
    const { summary } = runRecord();
    const empty = { ...summary, incidents: [], reward_last: null, eval_last: null, tokens_per_s: Number.NaN };
    const { status } = runRecord();
    const nothing = { steps: [], evals: [], members: [], causes: [], samples: [], config_text: "" };
    const page = htmlReport({ status, summary: empty, ...nothing });
    expect(page).toContain("No data.");
    expect(page).toContain("No replicas.");
    expect(page).not.toMatch(/NaN|Infinity|undefined|null/);
    const broken = runRecord().steps.map((step) => ({
      ...step,
      reward: Number.NaN,
      step_ms: 0,
      entropy: Number.POSITIVE_INFINITY,
    }));
    expect(htmlReport({ ...runRecord(), steps: broken })).not.toMatch(/NaN|Infinity|undefined/);
  });

  it.each([
    ["running", "Running step 250 of 250 as of 2026-01-01 00:00:41 UTC"],
    ["failed", "Failed at step 250 of 250 policy-0 keeps ending"],
    ["interrupted", "Interrupted at step 250 of 250 policy-0 keeps ending"],
  ] as const)("says first that a run is %s, and why", (state, first) => {
    const { status } = runRecord();
    const page = htmlReport(runRecord({ status: { ...status, state, reason: "policy-0 keeps ending" } }));
    const body = page
      .slice(page.indexOf("<body>"))
      .replace(/<[^>]+>/g, " ")
      .replace(/\s+/g, " ")
      .trim();
    expect(body.startsWith(first)).toBe(true);
    // Only a run that goes on has something new to show.
    expect(page.includes('http-equiv="refresh"')).toBe(state === "running");
  });

  it.each([1, 2, 3, 30, 50_000])(
    "is right and small for %d steps: whole steps on the axis, one place to point at each",
    (count) => {
      const record = runRecord();
      const all = Array.from({ length: count }, (_, i) => ({ ...record.steps[i % 250]!, step: i + 1, at_ms: i * 100 }));
      const page = htmlReport({ ...record, steps: all });
      expect(page.length).toBeLessThan(400_000);
      expect(page).not.toMatch(/NaN|undefined/);
      const loss = page.slice(page.indexOf("<title>Loss</title>"), page.indexOf("<title>Approximate KL</title>"));
      const labels = [...loss.matchAll(/text-anchor="middle">([^<]+)</g)].map((match) => match[1]);
      expect(new Set(labels).size).toBe(labels.length);
      const places = loss.match(/class="hit"/g)?.length ?? 0;
      expect(places).toBe(Math.min(count, 48));
      if (count <= 48) expect(loss).toContain(`step ${count}: loss `);
    },
  );

  it("says after how long every incident was noticed", () => {
    const { summary } = runRecord();
    const incidents = [{ kind: "policy.died", at_ms: 5, subject: "policy-1", detail: "exit", detect_ms: 0 }];
    const page = htmlReport(runRecord({ summary: { ...summary, incidents } }));
    expect(page).toContain('<td class="n">at once</td>');
  });

  it("shows the newest responses and the first one, with rewards and errors", () => {
    const page = htmlReport(runRecord());
    for (const part of [
      "2024-09-05",
      "no reward",
      "can not read the answer",
      "answer: 2024-09-06",
      "step 1, group 1.0",
    ])
      expect(page).toContain(part);
    expect(htmlReport(runRecord({ samples: [] }))).not.toContain("<h2>Samples");
  });

  it("draws the parts of rewards, a bounded number of them, and shows those of a response with what its reward says", () => {
    const record = runRecord();
    const part = { count: 8, mean: 0.5, spread: 0.1, least: 0, most: 1 };
    const names = Array.from({ length: 20 }, (_, i) => `part-${String(i).padStart(2, "0")}`);
    const page = htmlReport({
      ...record,
      steps: record.steps.map((step, i) =>
        i === 0 ? step : { ...step, components: Object.fromEntries(names.map((name) => [name, part])) },
      ),
      samples: record.samples.map((sample) => ({
        ...sample,
        components: { form: 0.25 },
        metadata: { judge: "<b>rules</b>" },
      })),
    });
    expect(page.match(/<h2>Reward: part-\d\d<\/h2>/g)).toHaveLength(12);
    expect(page).toContain("form 0.250, 11 tokens");
    expect(page).toContain("&quot;judge&quot;:&quot;&lt;b&gt;rules&lt;/b&gt;&quot;");
    expect(htmlReport(record)).not.toContain("<h2>Reward: ");
  });

  it("shouts when the ledger does not add up or something was lost", () => {
    const { summary } = runRecord();
    const page = htmlReport({
      ...runRecord(),
      summary: { ...summary, lost: 2, ledger: { ...summary.ledger, pending: 9 } },
    });
    expect(page).toContain('<td class="op bad">≠</td>');
    expect(page).toContain('<dd class="bad">2, 0');
  });
});
