/** Walks every state that a machine can reach with its alphabet and its timers. */
import type { AnyStateMachine, StateNode } from "xstate";
import { leavesOf, pathOf } from "../machines.ts";

/** A snapshot, as far as a walk reads it. */
export interface Snapshot {
  readonly value: unknown;
  readonly context: Readonly<Record<string, unknown>>;
  readonly status: string;
}

interface Core {
  init(input: unknown): { readonly snapshot: Snapshot; readonly effects: readonly Effect[] };
  step(snapshot: Snapshot, event: never): { readonly snapshot: Snapshot; readonly effects: readonly Effect[] };
}

interface Effect {
  readonly type: string;
  readonly kind?: string;
}

/** One event in one state, and what came of it. */
export interface Edge {
  readonly before: Snapshot;
  readonly event: { readonly type: string };
  readonly after: Snapshot;
  readonly effects: readonly Effect[];
}

/** More states than any of the machines has with its alphabet; a walk that gets there has an unbounded context. */
const statesMax = 60_000;

/** Paths of the leaves that a state value names. */
export function leafPaths(value: unknown, prefix = ""): string[] {
  if (typeof value === "string") return [`${prefix}${value}`];
  return Object.entries(value as object).flatMap(([key, child]) => leafPaths(child, `${prefix}${key}.`));
}

/** Every edge of the graph, each once. */
export function edgesOf(
  machine: AnyStateMachine,
  core: unknown,
  { input, events }: { readonly input: unknown; readonly events: readonly { readonly type: string }[] },
): readonly Edge[] {
  const { init, step } = core as Core;
  const timers = new Map(leavesOf(machine).map((leaf) => [pathOf(leaf), timersOf(leaf)]));
  const keyOf = ({ value, context }: Snapshot): string => JSON.stringify([value, context]);
  const start = init(input).snapshot;
  const seen = new Set([keyOf(start)]);
  const open = [start];
  const edges: Edge[] = [];
  for (let before = open.pop(); before; before = open.pop()) {
    if (before.status !== "active") continue;
    const due = leafPaths(before.value).flatMap((path) => timers.get(path) ?? []);
    for (const event of [...events, ...due.map((type) => ({ type }))]) {
      const { snapshot: after, effects } = step(before, event as never);
      edges.push({ before, event, after, effects });
      if (seen.has(keyOf(after))) continue;
      if (seen.size >= statesMax) throw new Error(`more than ${statesMax} states of ${machine.id}`);
      seen.add(keyOf(after));
      open.push(after);
    }
  }
  return edges;
}

function timersOf(node: StateNode): string[] {
  const own = [...node.transitions.keys()].filter((event) => event.startsWith("xstate.after"));
  return [...own, ...(node.parent ? timersOf(node.parent) : [])];
}
