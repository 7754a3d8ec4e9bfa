/** Every wait has a deadline, and every event a word, read off the machines as they are declared. */
import { type ControllerPhase, controllerPhases } from "@muster/machines/internal";
import { replicaRoles } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import type { StateNode } from "xstate";
import { Cluster } from "../cluster.ts";
import { allMachines, handledEvents, leavesOf, ownEvents, pathOf, statesOf } from "../machines.ts";
import { plan } from "../plans.ts";

/** States that may last: their replica has nothing to do, and its heartbeat says that it lives. */
const mayIdle = [
  "membership: member",
  "policy: waiting",
  "policy: ready",
  "rollout: weights.waiting",
  "rollout: work.ready",
  "checkpoint: disk.ready",
  "checkpoint: memory.waiting",
  "node: waiting",
  "node: keeping",
];

/** Events that a state has no word on, on purpose; the walk of the graph says why. */
const mayIgnore: Readonly<Record<string, readonly string[]>> = {
  "membership: member": ["replica.registered", "replica.refused"],
  "membership: draining": ["process.stopping", "replica.registered", "replica.refused"],
  "checkpoint: disk.ready": ["replica.fenced"],
  "checkpoint: memory.waiting": ["replica.fenced"],
};

const hasDeadline = (node: StateNode): boolean =>
  node.after.length > 0 || (node.parent !== undefined && hasDeadline(node.parent));

/** True for a state that is left at once whatever holds. */
const isPassing = (node: StateNode): boolean =>
  node.always?.at(-1)?.guard === undefined && (node.always?.length ?? 0) > 0;

describe.each(Object.entries(allMachines))("the %s machine", (name, machine) => {
  const lasting = leavesOf(machine).filter((node) => node.type !== "final" && !isPassing(node));

  it("has a deadline in every state that is not watched by the heartbeat", () => {
    const idle = lasting.filter((node) => !hasDeadline(node)).map((node) => `${name}: ${pathOf(node)}`);
    expect(idle).toEqual(mayIdle.filter((path) => path.startsWith(`${name}:`)));
  });

  it("says of every state what it is, and of those that may last that the heartbeat watches them", () => {
    const silent = statesOf(machine.root).filter(({ description }) => !description?.endsWith("."));
    expect(silent.map(pathOf)).toEqual([]);
    const watched = lasting.filter(({ description }) => description?.includes("Watched by the heartbeat."));
    expect(watched.map((node) => `${name}: ${pathOf(node)}`)).toEqual(
      mayIdle.filter((path) => path.startsWith(`${name}:`)),
    );
  });

  it("handles every event in every state, or drops it by name", () => {
    const all = new Set([machine.root, ...statesOf(machine.root)].flatMap(ownEvents));
    const isParallel = machine.root.type === "parallel";
    for (const node of lasting) {
      const handled = handledEvents(node);
      const elsewhere = isParallel ? eventsOfOtherRegions(node, machine.root) : new Set<string>();
      const missing = [...all].filter((event) => !handled.has(event) && !handled.has("*") && !elsewhere.has(event));
      const path = `${name}: ${pathOf(node)}`;
      expect(missing.sort(), path).toEqual([...(mayIgnore[path] ?? [])].sort());
    }
  });
});

/** Events that every state of the other regions has a word on. */
function eventsOfOtherRegions(node: StateNode, root: StateNode): Set<string> {
  const region = node.path[0];
  const others = Object.values(root.states).filter(({ key }) => key !== region);
  const always = others.flatMap((other) => {
    const leaves = statesOf(other);
    return [...new Set(leaves.flatMap(ownEvents))].filter((event) =>
      leaves.every((leaf) => handledEvents(leaf).has(event)),
    );
  });
  return new Set(always);
}

describe("the phases of a job", () => {
  it("are all reached by jobs that lose every policy replica and come back", () => {
    const seen = new Set<ControllerPhase>();
    const cluster: Cluster = new Cluster({
      seed: 3,
      plan,
      observers: [{ input: ({ controller }) => void seen.add(controller.context.phase) }],
    });
    for (const role of replicaRoles) for (let i = 0; i < 2; i++) cluster.start(role, `${role}-${i}`);
    cluster.runUntil(() => cluster.state.step.step === 3);
    cluster.kill("policy-0");
    cluster.kill("policy-1");
    cluster.start("policy", "policy-2");
    cluster.runUntil(() => cluster.stopped !== null);
    expect([...seen].sort()).toEqual([...controllerPhases].sort());
  });
});
