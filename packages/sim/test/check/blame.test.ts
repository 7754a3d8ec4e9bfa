/** Groups that are given up, and the losses that there must have been over them. */
import { BlameChecker, type Decision, Judge } from "@muster/check/internal";
import type { ControllerState } from "@muster/machines/controller";
import { expect, it } from "vitest";
import type { Fault } from "../../src/faults/fault.ts";
import { shippedConfig } from "../../src/seed/shipped.ts";
import { areKills, isWide } from "../../src/witness/explained.ts";
import { VirtualWorld } from "../../src/world/world.ts";
import { modelsOf } from "../support/models.ts";

const { failure } = shippedConfig();
const item = { purpose: "train", step: 1, index: 4, attempt: 0 } as const;
const held = { "1-1": { holder: "rollout-1", items: [item], dueAtMs: 60_000 } };
const group = { queue: [], receipts: {}, quarantined: [] as readonly number[] };

/** The little of the controller's tables that is looked at. */
function stateWith(leases: object, quarantined: readonly number[] = []): ControllerState {
  const members = { "rollout-1": { id: "rollout-1", incarnation: "i1" } };
  const groups = { 1: { ...group, quarantined } };
  return { leases, groups, members, nowMs: 0, plan: { timing: { leaseMs: 60_000 } } } as unknown as ControllerState;
}

/** What is found when a group is given up after its holder was taken for lost so many times. */
function foundAfter(losses: number, how: { readonly isDead: boolean; readonly faults?: readonly Fault[] }) {
  const judge = new Judge(new VirtualWorld(1));
  const checker = new BlameChecker(judge, failure, { isWide: isWide(how.faults ?? []) });
  const holder = modelsOf().process("rollout-1", "rollout");
  checker.identified("i1", holder);
  if (how.isDead) holder.kill();
  const lost = { event: { type: "verdict.dead" }, before: stateWith(held), after: stateWith({}), effects: [] };
  for (let i = 0; i < losses; i++) checker.decided(lost as unknown as Decision);
  const given = { ...lost, before: stateWith({}), after: stateWith({}, [4]) };
  checker.decided(given as unknown as Decision);
  return judge.violations.map(({ detail }) => detail);
}

it("a group may be given up after as many losses as it has attempts", () => {
  expect(failure.engineCrash.attempts).toBe(3);
  expect(foundAfter(3, { isDead: true })).toEqual([]);
});

it("a group is given up too early when fewer of its holders were lost", () => {
  expect(foundAfter(2, { isDead: true })).toEqual(["1.4 is given up, 2 of its holders were lost over it, not 3"]);
});

it("a holder that lives and that nothing struck is not lost, whatever the controller says", () => {
  expect(foundAfter(3, { isDead: false })).toEqual(["1.4 is given up, 0 of its holders were lost over it, not 3"]);
});

it("where the way to everybody is bad, whoever is taken for lost may be", () => {
  const faults = [{ kind: "broker-restart", atMs: 0, forMs: 1 }] as const;
  expect(foundAfter(3, { isDead: false, faults })).toEqual([]);
});

it("a storm is looked for where kills and drains are all that goes wrong, and only there", () => {
  const kill = { kind: "kill", atMs: 0, node: "policy-0", isSeen: true } as const;
  const drain = { kind: "drain", atMs: 0, node: "policy-0" } as const;
  const restart = { kind: "broker-restart", atMs: 0, forMs: 1 } as const;
  const all = { kind: "kill-all", atMs: 0, role: "policy", isSeen: true } as const;
  expect([[kill], [kill, drain, all], [kill, restart], []].map(areKills)).toEqual([true, true, false, false]);
});

it("a group whose holders are killed while others are killed more often is given up after more of them", () => {
  const givenUpAfter = (others: number, given: { readonly areKills: boolean }) => {
    const judge = new Judge(new VirtualWorld(1));
    const checker = new BlameChecker(judge, failure, { isWide: false, ...given });
    const holder = modelsOf().process("rollout-1", "rollout");
    checker.identified("i1", holder);
    holder.kill();
    const endOf = (id: string) => ({ type: "process.exited", body: { id, signal: "SIGKILL", code: null } });
    const tell = (event: object, before: object, after: object): void =>
      checker.decided({ event, before, after, effects: [] } as unknown as Decision);
    const bare = { ...stateWith({}), members: { "policy-0": { id: "policy-0" } } };
    for (let n = 0; n < others; n++) tell(endOf("policy-0"), bare, { ...bare, members: {} });
    for (let n = 0; n < 3; n++) tell(endOf("rollout-1"), stateWith(held), stateWith({}));
    tell({ type: "controller.tick" }, stateWith({}), stateWith({}, [4]));
    return judge.violations.map(({ invariant, detail }) => `${invariant}: ${detail}`);
  };
  expect(givenUpAfter(4, { areKills: true })).toEqual([
    "S20: 1.4 is given up in a storm, its 3 losses count as 1, not 3",
  ]);
  expect(givenUpAfter(1, { areKills: true })).toEqual([]);
  expect(givenUpAfter(4, { areKills: false })).toEqual([]);
});
