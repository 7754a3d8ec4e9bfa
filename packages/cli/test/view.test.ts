import type { EventMessage } from "@muster/client";
import { describe, expect, it } from "vitest";
import { eventJson, eventLine } from "../src/view/event-line.ts";
import { statusText } from "../src/view/status-text.ts";
import { table } from "../src/view/table.ts";
import { statusOf } from "./support/fake-job.ts";

const hostile = "\u001b]0;owned\u0007\u001b[2Jbad\r\nline\u202e";

describe("a table", () => {
  it("aligns names left and numbers right, and leaves no blanks at line ends", () => {
    const lines = table(
      [{ title: "NAME" }, { title: "N", right: true }, { title: "REST" }],
      [
        ["a", "1", ""],
        ["long name", "1,000", "x"],
      ],
    );
    expect(lines).toEqual(["NAME           N  REST", "a              1", "long name  1,000  x"]);
  });

  it("keeps a hostile cell on its line", () => {
    const [, line] = table([{ title: "NAME" }], [[hostile]]);
    expect(line).toBe("bad line");
  });
});

describe("the status of a job", () => {
  it("says how many ranks a replica has, where it is more than one", () => {
    const [policy, rollout] = statusOf("j").members;
    const text = statusText({ ...statusOf("j", { members: [policy!, { ...rollout!, ranks: 2 }] }), ageMs: 0 });
    expect(text).toMatch(/^rollout-0\s+rollout, 2 ranks\s+healthy/m);
    expect(text).toMatch(/^policy-0\s+policy\s+healthy/m);
  });

  it("names the ranks of a job of several hosts, who is missing, and the phase of a script with whom it waits for", () => {
    const script = {
      phases: [1, 4] as const,
      says: "sample step 3 and collect its groups",
      waitsFor: ["rollout-1: 2 groups"],
      more: 3,
    };
    const ranks = [
      { rank: 0, host: "here", sinceMs: 0 },
      { rank: 1, host: null, sinceMs: statusOf("j").atMs - 12_000 },
    ];
    const text = statusText({ ...statusOf("j", { script }), ageMs: 0 }, undefined, { host: "h", port: 1, ranks });
    expect(text).toMatch(/^hosts +0 here, 1 MISSING for 12 s$/m);
    expect(text).toMatch(
      /^phase +1–4 of 13: sample step 3 and collect its groups; waits for rollout-1: 2 groups, 3 more$/m,
    );
    expect(statusText({ ...statusOf("j", { script }), ageMs: 0 })).not.toMatch(/^hosts|^phase/m);
  });

  it("names the missing ranks first of all where there are too many ranks for a line", () => {
    const { atMs } = statusOf("j");
    const hostsWith = (isMissing: (rank: number) => boolean): string | undefined => {
      const ranks = Array.from({ length: 256 }, (_, rank) => ({
        rank,
        host: isMissing(rank) ? null : `host-${rank}`,
        sinceMs: atMs - 12_000,
      }));
      const text = statusText({ ...statusOf("j"), ageMs: 0 }, undefined, { host: "h", port: 1, ranks });
      return /^hosts +(.*)$/m.exec(text)?.[1];
    };
    expect(hostsWith((rank) => rank === 200)).toBe("255 of 256 ranks are there; 200 MISSING for 12 s");
    expect(hostsWith(() => false)).toBe("256 of 256 ranks are there");
    expect(hostsWith((rank) => rank > 0)).toMatch(/^1 of 256 ranks are there; 1 MISSING .*; 249 more MISSING$/);
  });

  it("shows the age of a beat as it is now, not as it was drawn", () => {
    const text = statusText({ ...statusOf("j"), ageMs: 1_000 });
    expect(text).toMatch(/^policy-0 .* 1\.3 s +2 ms +128 MiB$/m);
  });

  it("shows what trainers compute with, where they say it", () => {
    const engines = [
      { build: "torch-2.13", fingerprint: "ab12", members: 3 },
      { build: "torch-2.12", fingerprint: "cd34", members: 1 },
    ];
    const samplers = [{ build: "sglang-1", fingerprint: "ef56", members: 9 }];
    const text = statusText({ ...statusOf("j", { engines, samplers }), ageMs: 0 });
    expect(text).toMatch(/^samplers +9 × build sglang-1, fingerprint ef56$/m);
    expect(text).toMatch(
      /^trainers +3 × build torch-2\.13, fingerprint ab12\n +1 × build torch-2\.12, fingerprint cd34$/m,
    );
    expect(statusText({ ...statusOf("j"), ageMs: 0 })).not.toContain("trainers");
  });

  it("shows a job that has nothing yet", () => {
    const { fleet } = statusOf("j");
    const nobody = { ...fleet, replicas: [], nodes: [], totals: {} };
    const empty = { version: null, sections: [], mesh: [], epoch: 0, members: [], checkpoint: null, fleet: nobody };
    const text = statusText({ ...statusOf("j", empty), ageMs: 0 });
    expect(text).toContain("none yet, lineage 0");
    expect(text).toContain("epoch 0, no members");
    expect(text.endsWith("no members")).toBe(true);
  });

  it("shows what should run where, how it is, and what operators have under way", () => {
    const missing = ["rollout: 0 healthy, at least 1 needed"];
    const { fleet } = statusOf("j");
    const text = statusText({ ...statusOf("j", { fleet: { ...fleet, missing } }), ageMs: 0 });
    expect(text).toMatch(
      /^fleet +policy 1\/1, rollout 0\/2, checkpoint 0\/0 on node-0 2 cordoned \(GPU 0: 3 errors\)$/m,
    );
    expect(text).toMatch(/^missing +rollout: 0 healthy, at least 1 needed$/m);
    expect(text).toMatch(/^doing +fleet\.scale \{"rollout":2\} \(c-1\)$/m);
    expect(text).toMatch(/^policy-0 +policy +healthy +node-0: 0 /m);
    expect(text).toMatch(/^rollout-1 +rollout +restarting +node-0: 1,2 .*2 deaths/m);
  });

  it("counts everybody and says how many rows it leaves out", () => {
    const { fleet } = statusOf("j");
    const large = {
      totals: { policy: { healthy: 64 }, rollout: { healthy: 9_920, suspect: 16 } },
      membersLeftOut: 9_998,
      fleet: {
        ...fleet,
        wanted: { policy: 64, rollout: 9_940, checkpoint: 0 },
        totals: { policy: { HEALTHY: 64 }, rollout: { HEALTHY: 9_920, RESTARTING: 20 } },
        leftOut: { nodes: 1_249, replicas: 10_002 },
      },
    };
    const text = statusText({ ...statusOf("j", large), ageMs: 0 });
    expect(text).toMatch(/^members +policy 64 healthy; rollout 9,920 healthy, 16 suspect$/m);
    expect(text).toMatch(/^fleet +policy 64\/64, rollout 9920\/9940, .*, 1,249 more$/m);
    expect(text).toMatch(/^9,998 more members/m);
    expect(text).toMatch(/^managed replicas: .*; 10,002 of them are not looked at here$/m);
  });

  it("shows a ledger that does not balance as such", () => {
    const ledger = { admitted: 5, trained: 1, aborted: 1, quarantined: 1, pending: 1 };
    expect(statusText({ ...statusOf("j", { ledger }), ageMs: 0 })).toContain("5 admitted ≠");
  });

  it("says why trajectories were given up, the most frequent root cause first", () => {
    const causes = [
      { name: "TypeError", message: hostile, frame: "judge (r.mjs:3:9)", count: 12, sample: "3.80/1" },
      { name: "RangeError", message: "no", frame: null, count: 1, sample: null },
    ];
    const text = statusText({ ...statusOf("j", { causes }), ageMs: 0 });
    expect(text).toMatch(/^given up +12 × TypeError: bad line \(at judge \(r\.mjs:3:9\), first 3\.80\/1\)$/m);
    expect(text).toMatch(/^ +1 × RangeError: no$/m);
  });

  it("does not call the controller gone when the job is over", () => {
    const old = { ageMs: 3_600_000 };
    expect(statusText({ ...statusOf("j"), ...old })).toContain("the controller may be gone");
    expect(statusText({ ...statusOf("j", { phase: "stopped" }), ...old })).not.toContain("the controller may be gone");
  });

  it("cleans what replicas say of themselves", () => {
    const [member] = statusOf("j").members;
    const text = statusText({
      ...statusOf("j", { members: [{ ...member!, phase: hostile }], phase: hostile }),
      ageMs: 0,
    });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    expect(text).toContain("bad line");
  });
});

describe("an event", () => {
  const event = (kind: string, body: object): EventMessage =>
    ({ kind, body, from: "controller", term: 1, sentAtMs: 0 }) as unknown as EventMessage;

  it("is a line with the time of its sender, for every kind", () => {
    const committed = {
      ...{ step: 7, version: 7, reward: 0.5, tokens: 1234, stepMs: 1500, staleness: 0 },
      ...{ loss: -0.0123, approxKl: 0.00031, clipFraction: 0.012, entropy: 1.234, gradNorm: 0.52 },
    };
    const figures =
      "step 7  version 7  reward 0.500  1.23k tokens  1.5 s  staleness 0\n" +
      "            loss -0.0123  kl 0.00031  clipped 1.2 %  entropy 1.23  gradient 0.52";
    const apart = { logprobGap: 0.0021, logprobGapMax: 0.5, klReference: 0.012 };
    expect(eventLine(event("step.committed", { ...committed, ...apart }))).toContain(
      "kl 0.00031  kl to reference 0.012  log-prob gap 0.0021, at most 0.5  clipped 1.2 %",
    );
    const { reward: _, approxKl: __, ...given } = committed;
    expect(eventLine(event("step.committed", given))).toMatch(
      /version 7 {2}loss -0\.012 {2}1\.23k tokens[\s\S]* loss -0\.0123 {2}clipped/,
    );
    const line = eventLine(event("step.committed", committed));
    expect(line).toMatch(/^\d\d:\d\d:\d\d {4}step 7/);
    expect(line.slice(12)).toBe(figures);
    const counted = {
      ...{
        lr: 0.001,
        rewardSpread: 0.25,
        rewardLeast: 0,
        rewardMost: 1,
        evenGroups: 0.5,
        lengthMean: 10.25,
        lengthMax: 16,
      },
      components: ["a", "b", "c", "d", "e", "f", "g"].map((name) => ({ name, count: 4, mean: 0.5, spread: 0.25 })),
      componentsMore: 3,
      ...{ truncated: 0.03, trainTokensPerS: 61_440, sampleTokensPerS: 12_300 },
      held: [
        { id: hostile, version: null },
        { id: "policy-0", version: 6 },
        { id: "rollout-0", version: 6 },
      ],
    };
    expect(eventLine(event("step.committed", { ...committed, ...counted })).slice(12)).toBe(
      `${figures}  lr 0.001\n` +
        "            reward ±0.25 (0 to 1)  without advantage 50.0 %  length 10.3, at most 16  truncated 3.0 %" +
        "  trainers 61.4k tok/s  samplers 12.3k tok/s\n" +
        `            ${["a", "b", "c", "d", "e", "f"].map((name) => `${name} 0.5 ±0.25`).join("  ")}  and 4 more\n` +
        "            held by no version: bad line; v6: policy-0, rollout-0",
    );
    expect(eventLine(event("job.ended", { outcome: "done", step: 9, version: 9, reason: hostile }))).toContain(
      "done at step 9, version 9: bad line",
    );
    expect(eventLine(event("member.joined", { id: "rollout-3" }))).toContain("+ rollout-3 joined");
    const responses = [
      { reward: 1, text: hostile },
      { reward: null, text: "", error: "TypeError: no" },
    ];
    expect(eventLine(event("samples.shown", { step: 3, index: 0, replica: "rollout-1", responses }))).toContain(
      "samples of group 3.0 from rollout-1: bad line (1.000);  (TypeError: no)",
    );
  });

  it("is one object for programs, whose kind is that of the event and not one in its body", () => {
    const done = event("command.done", { commandId: "c1", kind: "fleet.scale", outcome: "done", detail: "" });
    expect(JSON.parse(eventJson(done, 1))).toMatchObject({ kind: "command.done", body: { kind: "fleet.scale" } });
    const line = eventJson(event("alarm.raised", { alarm: "x", detail: hostile }), 12);
    expect(line).not.toContain("\n");
    expect(JSON.parse(line)).toEqual({
      seq: 12,
      kind: "alarm.raised",
      from: "controller",
      term: 1,
      sentAtMs: 0,
      body: { alarm: "x", detail: hostile },
    });
  });
});
