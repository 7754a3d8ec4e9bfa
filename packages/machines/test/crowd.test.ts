/** The sums over all members say what looking at each of them says. */
import { memberRoles } from "@muster/protocol";
import { expect, it } from "vitest";
import { crowd } from "../src/controller/members/crowd.ts";
import type { Member } from "../src/controller/members/member.ts";
import { memberOf } from "./states.ts";

const pull = { kind: "weights.pull", lineage: 0, version: 4, dueAtMs: 700 } as unknown as Member["order"];
const begin = { kind: "weights.initialize", lineage: 0, version: 0, dueAtMs: 800 } as unknown as Member["order"];
const apply = { kind: "step.apply", lineage: 0, version: 4, dueAtMs: 850 } as unknown as Member["order"];
const stop = { kind: "replica.stop", dueAtMs: 900 } as unknown as Member["order"];

/** One member of each role, health, weights and order. What they hold is alike, and not one object. */
const all = (): readonly Member[] =>
  memberRoles.flatMap((role) =>
    (["healthy", "suspect", "draining"] as const).flatMap((health) =>
      [true, false].flatMap((isHolding) =>
        [null, pull, begin, apply, stop].map((order) =>
          memberOf("m", 1, { role, health, held: isHolding ? { lineage: 0, version: 3 } : null, order }),
        ),
      ),
    ),
  );
const crowdOf = (members: readonly Member[]) =>
  crowd.of(Object.fromEntries(members.map((member, i) => [`m${i}`, member])));

it.each([
  ["each alone", () => all().map((member) => [member])],
  ["all together", () => [all()]],
  ["nobody", () => [[]]],
] as const)("%s", (_, partsOf) => {
  for (const members of partsOf()) {
    const sum = crowdOf(members);
    const many = (isIt: (member: Member) => boolean): number => members.filter(isIt).length;
    for (const role of memberRoles) {
      expect(sum.count[role]).toBe(many((one) => one.role === role));
      expect(sum.healthy[role]).toBe(many((one) => one.role === role && one.health === "healthy"));
      expect(sum.staying[role]).toBe(many((one) => one.role === role && one.health !== "draining"));
      expect(sum.holding[role]).toBe(many((one) => one.role === role && one.held !== null));
    }
    expect(sum.workers).toBe(many((one) => one.role === "rollout" && one.health === "healthy" && one.held !== null));
    expect(sum.beginning).toBe(many(({ order }) => order?.kind === "weights.initialize"));
    expect(sum.applying).toBe(many(({ order }) => order?.kind === "step.apply"));
    expect(sum.leaving).toBe(many(({ health, order }) => health === "draining" && order?.kind !== "replica.stop"));
    expect(sum.dueAtMs).toBe(Math.min(...members.map(({ order }) => order?.dueAtMs ?? Number.POSITIVE_INFINITY)));
    const idle = members.filter(
      ({ role, health, order }) => order === null && health !== "draining" && (role === "policy" || role === "rollout"),
    );
    const kinds = [{ lineage: 0, version: 3 }, null].filter((kind) =>
      idle.some((one) => (one.held === null) === (kind === null)),
    );
    expect(sum.idleWith).toHaveLength(kinds.length);
    expect(sum.idleWith).toEqual(expect.arrayContaining(kinds));
  }
});
