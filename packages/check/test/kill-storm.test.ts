/** How much kills weigh against a group, counted beside the controller. */
import type { ControllerState } from "@muster/machines/controller";
import { expect, it } from "vitest";
import type { Decision } from "../src/journal-model.ts";
import { KillStorm } from "../src/kill-storm.ts";

const members = Object.fromEntries(["policy-0", "rollout-0"].map((id) => [id, { id }]));
const leases = { "1-1": { holder: "rollout-0", items: [], dueAtMs: 0 } };
const stateAt = (nowMs: number, present: object = members) =>
  ({ members: present, leases, nowMs }) as unknown as ControllerState;

function ends(
  storm: KillStorm,
  id: string,
  how: { readonly atMs?: number; readonly signal?: string | null } = {},
): void {
  const { atMs = 0, signal = "SIGKILL" } = how;
  const { [id as "policy-0"]: _, ...left } = members;
  const event = { type: "process.exited", atMs, from: "supervisor", body: { id, signal, code: null } };
  storm.decided({ event, before: stateAt(atMs), after: stateAt(atMs, left), effects: [] } as unknown as Decision);
}

/** What the kills of so many holders weigh after others were killed. */
function weightAfter(kills: number, others: number, between: (storm: KillStorm) => void = () => {}, nowMs = 0): number {
  const storm = new KillStorm();
  for (let n = 0; n < others; n++) ends(storm, "policy-0");
  between(storm);
  for (let n = 1; n <= kills; n++) storm.lost("1.4", n, stateAt(nowMs));
  return storm.weightOf("1.4", kills);
}

it("four kills weigh as one where others were killed more often, and in full where they were not", () => {
  expect([1, 2, 4, 5, 9].map((kills) => weightAfter(kills, 20))).toEqual([1, 1, 1, 2, 3]);
  expect([weightAfter(3, 4), weightAfter(3, 0)]).toEqual([1, 3]);
  expect(weightAfter(3, 3), "two of three in a storm").toBe(2);
});

it("other losses weigh in full beside them", () => {
  const storm = new KillStorm();
  for (let n = 0; n < 20; n++) ends(storm, "policy-0");
  storm.lost("1.4", 3, stateAt(0));
  expect(storm.weightOf("1.4", 3)).toBe(3);
  expect(storm.weightOf("1.5", 2), "nothing of another group").toBe(2);
});

it.each<[string, (storm: KillStorm) => void, number]>([
  ["before a new term", (storm) => storm.decided({ event: { type: "controller.elected" } } as unknown as Decision), 0],
  ["before a group was found that ends trainers", (storm) => storm.explained(), 0],
  ["long ago", () => {}, 500_000],
])("kills %s are no sign of a storm", (_, between, nowMs) => {
  expect(weightAfter(3, 20, between, nowMs)).toBe(3);
});

it("neither are crashes, nor the ends of holders, whose group may be to blame", () => {
  for (const end of [
    (storm: KillStorm) => ends(storm, "policy-0", { signal: "SIGSEGV" }),
    (storm: KillStorm) => ends(storm, "policy-0", { signal: null }),
    (storm: KillStorm) => ends(storm, "rollout-0"),
  ])
    expect(weightAfter(3, 0, (storm) => Array.from({ length: 20 }, () => end(storm)))).toBe(3);
});
