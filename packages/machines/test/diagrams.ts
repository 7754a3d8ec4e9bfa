/** State diagrams and tables of the machines as Markdown, read off the machines themselves. */
import type { AnyStateMachine, StateNode } from "xstate";
import { leavesOf, pathOf } from "./machines.ts";

const indent = (depth: number): string => "  ".repeat(depth);

/** Names of Mermaid may not contain dots. */
const nameOf = (node: StateNode): string => node.path.join("_");

/** A diagram of a machine: transitions that change the state, with their event, guard or deadline. */
export function diagramOf(machine: AnyStateMachine): string {
  const { root } = machine;
  const anywhere = edgesOf(root).filter(({ target }) => target);
  const lines = [
    "stateDiagram-v2",
    ...linesOf(root, 1),
    ...(anywhere.length > 0 ? [`${indent(1)}state "any state" as any`] : []),
    ...anywhere.map(({ target, label }) => `${indent(1)}any --> ${target}: ${label}`),
  ];
  return fence(lines);
}

/** A diagram of observed changes of state. */
export function diagramOfChanges(first: string, changes: ReadonlySet<string>): string {
  const edges = [...changes].sort().map((change) => `${indent(1)}${change}`);
  return fence(["stateDiagram-v2", `${indent(1)}[*] --> ${first}`, ...edges, `${indent(1)}stopped --> [*]`]);
}

/** A table of the states of a machine: what they are, and what ends them when nothing comes. */
export function tableOf(machine: AnyStateMachine): string {
  const rows = leavesOf(machine).map((node) => `| \`${pathOf(node)}\` | ${node.description ?? ""} | ${endOf(node)} |`);
  return ["| State | What it is | When nothing comes |", "| --- | --- | --- |", ...rows].join("\n");
}

function fence(lines: readonly string[]): string {
  return ["```mermaid", ...lines, "```"].join("\n");
}

function linesOf(parent: StateNode, depth: number): string[] {
  const children = Object.values(parent.states);
  const isParallel = parent.type === "parallel";
  const initial = parent.initial?.target[0];
  const start = initial ? [`${indent(depth)}[*] --> ${nameOf(initial)}`] : [];
  const nodes = children.flatMap((node) => {
    const inner = Object.keys(node.states).length > 0;
    if (inner) return [`${indent(depth)}state ${nameOf(node)} {`, ...linesOf(node, depth + 1), `${indent(depth)}}`];
    const label = node.path.length > 1 ? [`${indent(depth)}${nameOf(node)}: ${node.key}`] : [];
    return [...label, ...edgesFrom(node, depth)];
  });
  return isParallel ? nodes : [...start, ...nodes];
}

function edgesFrom(node: StateNode, depth: number): string[] {
  const edges = edgesOf(node).map(({ target, label }) => `${indent(depth)}${nameOf(node)} --> ${target}: ${label}`);
  return node.type === "final" ? [...edges, `${indent(depth)}${nameOf(node)} --> [*]`] : edges;
}

interface DrawnEdge {
  readonly target: string | undefined;
  readonly label: string;
}

/** Transitions of a node that lead somewhere, each label once. */
function edgesOf(node: StateNode): DrawnEdge[] {
  const timed = [...node.transitions].flatMap(([event, transitions]) =>
    transitions.map((transition) => ({ event: labelOf(event), transition })),
  );
  const passing = (node.always ?? []).map((transition) => ({ event: "", transition }));
  const edges = [...timed, ...passing].flatMap(({ event, transition }) => {
    const target = transition.target?.[0];
    return target
      ? [{ target: nameOf(target), label: [event, guardOf(transition.guard)].filter(Boolean).join(" ") || "otherwise" }]
      : [];
  });
  return edges.filter(
    (edge, i) => edges.findIndex((other) => other.target === edge.target && other.label === edge.label) === i,
  );
}

/** `after pull` for a timer, the event itself otherwise. */
function labelOf(event: string): string {
  const timer = /^xstate\.after\.([^.]+)\./.exec(event);
  return timer ? `after ${timer[1]}` : event;
}

function guardOf(guard: unknown): string {
  if (guard === undefined) return "";
  return typeof guard === "string" ? `[${guard}]` : `[${(guard as { type: string }).type}]`;
}

function endOf(node: StateNode): string {
  if (node.type === "final") return "–";
  if (node.always?.length && node.always.at(-1)?.guard === undefined) return "left at once";
  const delays = node.after.map(({ delay }) => `\`${String(delay)}\``);
  return delays.length > 0 ? `deadline ${[...new Set(delays)].join(", ")}` : "heartbeat";
}
