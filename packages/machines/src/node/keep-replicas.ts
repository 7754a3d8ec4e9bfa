/**
 * A node's table of replicas, stepped by pure functions: what is missing starts, what is not wanted ends, what died starts again after
 * 0.25, 1, 2, 4 … 60 s, and what dies more than five times in ten minutes is given up (reliability 2 A4). Being killed after a good life
 * says nothing about the program, so it counts for nothing.
 */
import type { Body } from "@muster/protocol";
import type { TimerEffect } from "../logic.ts";
import { report } from "../replica-events.ts";
import type { Kept, NodeContext, NodeEffect, NodeEvent } from "./node-events.ts";

/** Deaths in the window that a replica may have and still start again. */
const deathsMax = 5;

/** Time in which deaths are counted. */
const deathWindowMs = 600_000;

/** A process that lived so long was well. */
const goodLifeMs = 10_000;

/** A table and what must be done about it. */
export interface Keeping {
  readonly context: NodeContext;
  readonly effects: readonly (NodeEffect | TimerEffect<NodeEvent>)[];
}

type Effects = Keeping["effects"];
type Exited = Extract<NodeEvent, { type: "keeper.exited" }>;

const signalledMax = 64;

/** Pause before the start after the `deaths`-th death. Pure. */
export function restartDelayMs(deaths: number): number {
  return deaths <= 1 ? 250 : Math.min(60_000, 1_000 * 2 ** (deaths - 2));
}

/** Takes the whole set that should run. An older one than the last is dropped; the same one is acknowledged again. Pure. */
export function applyAssign(context: NodeContext, body: Body<"node.assign">): Keeping {
  const { revision } = body;
  if (revision < context.revision)
    return { context, effects: [{ type: "drop", kind: "node.assign", reason: "an older assignment" }] };
  const wanted = new Map(body.replicas.map((replica) => [replica.id, replica]));
  const dropped = Object.keys(context.kept)
    .filter((id) => !wanted.has(id))
    .reduce<Keeping>((done, id) => also(done, release(done.context, id)), { context, effects: [] });
  const kept = startFreed(
    [...wanted.values()].reduce<Keeping>((done, one) => also(done, want(done.context, one)), dropped),
  );
  return {
    context: { ...kept.context, revision },
    effects: [report("node.assigned", { revision }), ...kept.effects],
  };
}

/** A process runs: the controller hears of it at once. Pure. */
export function applyStarted(context: NodeContext, id: string, pid: number): Keeping {
  const kept = context.kept[id];
  if (kept?.state !== "running" && kept?.state !== "ending")
    return { context, effects: [{ type: "drop", kind: "keeper.started", reason: "not running" }] };
  const { host } = context;
  return {
    context: put(context, id, { ...kept, pid }),
    effects: [report("process.started", { id, host, pid, life: kept.life })],
  };
}

/** A process ended: evidence for the controller, and the next start, or none. Pure. */
export function applyExit(context: NodeContext, event: Exited): Keeping {
  const { id, pid, code, signal, oom, life, words } = event;
  const { host } = context;
  const more = { ...(oom ? { oom } : {}), ...(words === undefined ? {} : { words }) };
  const ended = report("process.exited", { id, host, pid, code, signal, life, ...more });
  const kept = context.kept[id];
  if (!kept || kept.life !== life || !hasProcess(kept)) return { context, effects: [ended] };
  return startFreed(ownExit(context, event, ended));
}

function ownExit(context: NodeContext, event: Exited, ended: NodeEffect): Keeping {
  const { id, code, signal, oom, life, words } = event;
  const kept = context.kept[id] as Kept;
  const calm: Effects = [ended, { type: "timer.cancel", id: `late-${id}` }];
  if (!kept.isWanted) return { context: drop(context, id), effects: calm };
  const gone: Kept = { ...kept, pid: null, endedAtMs: event.atMs };
  const isReplaced = kept.state === "ending";
  if (code === 0 && !isReplaced && life >= kept.least)
    return { context: put(context, id, { ...gone, state: "left" }), effects: calm };
  const deaths = deathsAfter(kept, event);
  const end = oom ? "it was short of memory" : (signal ?? `code ${code}`);
  const how = words === undefined ? end : `${end}: ${words}`;
  if (deaths.length > deathsMax) return retire(context, { id, kept: { ...gone, deaths }, how, effects: calm });
  const paused: Kept = { ...gone, deaths, state: "pausing" };
  const due: NodeEvent = { type: "keeper.due", id };
  return {
    context: put(context, id, paused),
    effects: [
      ...calm,
      { type: "timer.start", id: `due-${id}`, delayMs: isReplaced ? 0 : restartDelayMs(deaths.length), event: due },
    ],
  };
}

/** The deaths that count after this one. */
function deathsAfter(kept: Kept, { atMs, oom, signal }: Exited): readonly number[] {
  const livedMs = kept.endedAtMs === null ? 0 : atMs - kept.endedAtMs - restartDelayMs(kept.deaths.length);
  if (signal === "SIGKILL" && !oom && livedMs >= goodLifeMs) return [];
  return [...kept.deaths.filter((at) => atMs - at < deathWindowMs), atMs];
}

/** The pause is over. Pure. */
export function applyDue(context: NodeContext, id: string): Keeping {
  const kept = context.kept[id];
  if (kept?.state !== "pausing")
    return { context, effects: [{ type: "drop", kind: "keeper.due", reason: "not waiting" }] };
  return start(context, id, kept);
}

/** Whoever was asked to leave had its time. Pure. */
export function applyLate(context: NodeContext, id: string): Keeping {
  if (context.kept[id]?.state !== "ending")
    return { context, effects: [{ type: "drop", kind: "keeper.late", reason: "not ending" }] };
  return { context, effects: [{ type: "keeper.end", id, how: "kill" }] };
}

/** Sends a signal, once per command. Pure. */
export function applySignal(context: NodeContext, body: Body<"node.signal">): Keeping {
  if (context.signalled.includes(body.commandId))
    return { context, effects: [{ type: "drop", kind: "node.signal", reason: "sent already" }] };
  const signalled = [...context.signalled, body.commandId].slice(-signalledMax);
  const pid = context.kept[body.id]?.pid ?? null;
  const { commandId, id } = body;
  const effect: NodeEffect =
    pid === null
      ? report("node.signalled", { commandId, id, pid, detail: `${id} has no process now` })
      : { type: "keeper.signal", body, pid };
  return { context: { ...context, signalled }, effects: [effect] };
}

/** What is seen on the host is news when its kinds are others than before. Pure. */
export function applySigns(context: NodeContext, signs: NodeContext["signs"]): Keeping {
  const isSame = kindsOf(signs) === kindsOf(context.signs);
  return isSame
    ? { context, effects: [] }
    : { context: { ...context, signs }, effects: [report("node.signs", { signs })] };
}

function kindsOf(signs: NodeContext["signs"]): string {
  return signs
    .map(({ kind }) => kind)
    .sort()
    .join();
}

/** Ends everything. Pure. */
export function releaseAll(context: NodeContext): Keeping {
  return Object.keys(context.kept).reduce<Keeping>((done, id) => also(done, release(done.context, id)), {
    context,
    effects: [],
  });
}

function release(context: NodeContext, id: string): Keeping {
  const kept = context.kept[id];
  if (!kept) return { context, effects: [] };
  if (kept.state === "ending") return { context: put(context, id, { ...kept, isWanted: false }), effects: [] };
  if (kept.state !== "running")
    return { context: drop(context, id), effects: [{ type: "timer.cancel", id: `due-${id}` }] };
  const late: NodeEvent = { type: "keeper.late", id };
  return {
    context: put(context, id, { ...kept, isWanted: false, state: "ending" }),
    effects: [
      { type: "keeper.end", id, how: "term" },
      { type: "timer.start", id: `late-${id}`, delayMs: context.graceMs, event: late },
    ],
  };
}

function want(context: NodeContext, wanted: Body<"node.assign">["replicas"][number]): Keeping {
  const { id, role, life: least, devices = null } = wanted;
  const kept = context.kept[id];
  if (!kept) {
    const fresh = {
      role,
      isWanted: true,
      least,
      life: least - 1,
      state: "left",
      devices,
      held: null,
      pid: null,
      deaths: [],
      endedAtMs: null,
    } as const;
    return start(context, id, fresh);
  }
  const next: Kept = { ...kept, isWanted: true, least, devices };
  const isOnOthers = kept.state === "running" && String(kept.held) !== String(devices);
  const isFine = (kept.life >= least && !isOnOthers) || kept.state === "pausing" || kept.state === "waiting";
  if (isFine) return { context: put(context, id, next), effects: [] };
  if (kept.state === "left") return start(context, id, next);
  if (kept.state === "retired") return start(context, id, { ...next, deaths: [] });
  // A life that the controller has put out can not be trusted to leave by itself, and one on devices of others may not go on.
  const ended = put(context, id, { ...next, state: "ending" });
  return { context: ended, effects: [{ type: "keeper.end", id, how: "kill" }] };
}

/** Starts a replica, or has it wait for its devices: the controller gives no device twice, but only its node knows when a process has ended. */
function start(context: NodeContext, id: string, kept: Kept): Keeping {
  if (isTaken(context, id, kept.devices ?? []))
    return { context: put(context, id, { ...kept, state: "waiting", pid: null }), effects: [] };
  const life = Math.max(kept.least, kept.life + 1);
  const { role, devices } = kept;
  return {
    context: put(context, id, { ...kept, life, state: "running", held: devices, pid: null }),
    effects: [{ type: "keeper.start", id, role, life, devices }],
  };
}

/** Starts whoever waited for devices that nobody has any more. */
function startFreed(keeping: Keeping): Keeping {
  const waiting = Object.entries(keeping.context.kept).filter(([, { state }]) => state === "waiting");
  return waiting.reduce((done, [id, kept]) => also(done, start(done.context, id, kept)), keeping);
}

/** Whether another process of this node has one of these devices. */
function isTaken(context: NodeContext, id: string, devices: readonly string[]): boolean {
  if (devices.length === 0) return false;
  const others = Object.entries(context.kept).filter(([other, each]) => other !== id && hasProcess(each));
  return others.some(([, { held }]) => held?.some((device) => devices.includes(device)));
}

function hasProcess({ state }: Kept): boolean {
  return state === "running" || state === "ending";
}

function retire(
  context: NodeContext,
  {
    id,
    kept,
    how,
    effects,
  }: { readonly id: string; readonly kept: Kept; readonly how: string; readonly effects: Effects },
): Keeping {
  const count = kept.deaths.length;
  const reason = `it ended ${count} times in ${deathWindowMs / 60_000} minutes, the last time with ${how}`;
  return {
    context: put(context, id, { ...kept, state: "retired" }),
    effects: [...effects, report("process.retired", { id, life: kept.life, deaths: count, reason })],
  };
}

function put(context: NodeContext, id: string, kept: Kept): NodeContext {
  return { ...context, kept: { ...context.kept, [id]: kept } };
}

function drop(context: NodeContext, id: string): NodeContext {
  const { [id]: _, ...kept } = context.kept;
  return { ...context, kept };
}

function also(before: Keeping, next: Keeping): Keeping {
  return { context: next.context, effects: [...before.effects, ...next.effects] };
}
