import type { EventMessage } from "@muster/client";
import { describe, expect, it } from "vitest";
import type { Progress, ProgressUpdate } from "../src/report/progress.ts";
import { createNarrator } from "../src/run/narrator.ts";

interface Said {
  readonly lines: string[];
  readonly troubles: (string | null)[];
  /** One event, so long after the start. */
  say(seconds: number, kind: string, body: object): void;
  end(): void;
}

function tell(): Said {
  const lines: string[] = [];
  const troubles: (string | null)[] = [];
  const progress: Progress = {
    update: ({ trouble }: ProgressUpdate) => {
      if (trouble !== undefined && trouble !== troubles.at(-1)) troubles.push(trouble);
    },
    note: (line) => void lines.push(line),
    end: () => {},
  };
  const narrator = createNarrator(progress, 10);
  return {
    ...{ lines, troubles },
    say: (seconds, kind, body) =>
      narrator.take({ kind, body, sentAtMs: seconds * 1000 } as unknown as EventMessage, true),
    end: () => narrator.end(),
  };
}

const member = (id: string, incarnation: string) => ({ id, role: id.split("-")[0], incarnation, host: "h" });
const killed = { evidence: "process ended with SIGKILL" };
const groups = (items: readonly string[]) => ({ items, count: items.length, holder: "rollout-1", reason: "died" });
const commit = (step: number) => ({ step, version: step, reward: 0, tokens: 1, groups: [] });

function begun(): Said {
  const said = tell();
  said.say(0, "job.started", { term: 1 });
  for (const id of ["policy-0", "policy-1", "rollout-0", "rollout-1"]) said.say(0, "member.joined", member(id, "i1"));
  said.say(1, "mesh.changed", { epoch: 1, members: ["policy-0", "policy-1"] });
  said.say(2, "step.committed", commit(1));
  said.lines.length = 0;
  return said;
}

describe("one line for each recovery", () => {
  it("sums up a sampler: whose work went on when, and when it was back", () => {
    const said = begun();
    said.say(3, "member.suspected", { ...member("rollout-1", "i1"), evidence: "silent" });
    said.say(3.1, "member.died", { ...member("rollout-1", "i1"), ...killed });
    for (const items of [["a", "b"], ["c"]]) said.say(3.1, "groups.released", groups(items));
    for (const [i, items] of [["a", "b"], ["c"]].entries())
      said.say(3.2 + i, "groups.resumed", { ...groups(items), holder: "rollout-0", tokens: 3 });
    expect(said.lines).toEqual([]);
    expect(said.troubles.at(-1)).toBe("! rollout-1 died");
    said.say(5, "member.joined", member("rollout-1", "i2"));
    expect(said.lines).toEqual([
      "! rollout-1 died: process ended with SIGKILL; its 3 groups went on at others after 1.2 s; back after 2.0 s",
    ]);
    expect(said.troubles.at(-1)).toBe(null);
  });

  it("sums up a trainer, with the step that began again and both meshes", () => {
    const said = begun();
    said.say(3, "member.died", { ...member("policy-1", "i1"), ...killed });
    said.say(3.1, "step.retried", { step: 2, attempt: 2, reason: "policy-1 was lost before its vote" });
    said.say(3.2, "mesh.changed", { epoch: 2, members: ["policy-0"] });
    said.say(4, "step.committed", commit(2));
    said.say(5, "member.joined", member("policy-1", "i2"));
    said.say(5.5, "mesh.changed", { epoch: 3, members: ["policy-0", "policy-1"] });
    expect(said.lines).toEqual([
      "! policy-1 died: process ended with SIGKILL; step 2 began again, done after 1.0 s; back after 2.0 s",
    ]);
    said.say(6, "mesh.changed", { epoch: 4, members: ["policy-0"] });
    expect(said.lines.at(-1)).toBe("  mesh epoch 4: policy-0");
  });

  it("tells a silence that ends well, and an attempt that failed without a death", () => {
    const said = begun();
    said.say(3, "member.suspected", { ...member("rollout-0", "i1"), evidence: "no beat for 3 s" });
    said.say(4, "member.recovered", member("rollout-0", "i1"));
    said.say(5, "step.retried", { step: 2, attempt: 2, reason: "too slow" });
    said.say(5, "step.retried", { step: 2, attempt: 3, reason: "too slow" });
    said.say(7, "step.committed", commit(2));
    expect(said.lines).toEqual([
      "? rollout-0 was silent: no beat for 3 s; heard again after 1.0 s",
      "! step 2 began again: too slow; done after 2.0 s",
    ]);
  });

  it("does not wait for ever for who was lost, and says at the end what is not over", () => {
    const said = begun();
    said.say(3, "member.died", { ...member("rollout-0", "i1"), ...killed });
    said.say(10, "step.committed", commit(2));
    expect(said.lines).toEqual([]);
    said.say(19, "step.committed", commit(3));
    expect(said.lines).toEqual(["! rollout-0 died: process ended with SIGKILL; not back after 16 s"]);
    said.say(20, "member.joined", member("rollout-0", "i2"));
    expect(said.lines.at(-1)).toBe("+ rollout-0 joined");
    said.say(21, "member.died", { ...member("policy-0", "i1"), ...killed });
    said.say(22, "step.retried", { step: 4, attempt: 2, reason: "lost" });
    said.end();
    expect(said.lines.at(-1)).toBe(
      "! policy-0 died: process ended with SIGKILL; not over after 1.0 s; not back after 1.0 s",
    );
  });

  it("counts the deaths of who keeps dying, and tells of each of several", () => {
    const said = begun();
    said.say(3, "member.died", { ...member("rollout-0", "i1"), ...killed });
    said.say(3, "member.died", { ...member("rollout-1", "i1"), ...killed });
    expect(said.troubles.at(-1)).toBe("! rollout-0 died, 1 more");
    said.say(4, "member.died", { ...member("rollout-0", "i2"), evidence: "exit code 1" });
    said.say(5, "member.joined", member("rollout-0", "i3"));
    said.say(6, "member.joined", member("rollout-1", "i2"));
    expect(said.lines).toEqual([
      "! rollout-0 died 2 times: exit code 1; back after 2.0 s",
      "! rollout-1 died: process ended with SIGKILL; back after 3.0 s",
    ]);
  });

  it("leaves what is no recovery as it is", () => {
    const said = begun();
    said.say(3, "member.left", { ...member("rollout-0", "i1"), reason: "drained" });
    said.say(3, "groups.released", { ...groups(["a"]), holder: "rollout-0", reason: "drained" });
    said.say(4, "job.started", { term: 2 });
    said.say(5, "alarm.raised", { alarm: "progress", detail: "no step for 60 s" });
    expect(said.lines).toEqual([
      "- rollout-0 left: drained",
      "  1 groups of rollout-0 go to others: drained",
      "! another controller acts: term 2 begins",
      "! progress: no step for 60 s",
    ]);
  });
});
