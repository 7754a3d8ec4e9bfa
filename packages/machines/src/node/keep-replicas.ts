/**
 * A node's table of processes, stepped by pure functions: what is missing starts, what is not wanted ends, what died starts again by the
 * rule of `restart-rule.ts`. A rank of a replica of several starts again only when the controller says so, which does it for all of them.
 */
import { type Body, processNameOf, processOf, type RankOrder, type ReplicaRole } from "@muster/protocol";
import type { TimerEffect } from "../logic.ts";
import { report } from "../replica-events.ts";
import { deathsMax, deathWindowMs, goodLifeMs, isKillSignal, restartDelayMs } from "../restart-rule.ts";
import type { Kept, NodeContext, NodeEffect, NodeEvent } from "./node-events.ts";

/** Time that a rank has to leave whose replica is gone from its node: it has nothing of its own to hand back. */
const rankGraceMs = 1_000;

/** A table and what must be done about it. */
export interface Keeping {
  readonly context: NodeContext;
  readonly effects: readonly (NodeEffect | TimerEffect<NodeEvent>)[];
}

type Effects = Keeping["effects"];
type Exited = Extract<NodeEvent, { type: "keeper.exited" }>;

const signalledMax = 64;

/** Takes the whole set that should run. An older one than the last is dropped; the same one is acknowledged again. Pure. */
export function applyAssign(context: NodeContext, body: Body<"node.assign">): Keeping {
  const { revision } = body;
  if (revision < context.revision)
    return { context, effects: [{ type: "drop", kind: "node.assign", reason: "an older assignment" }] };
  const ranks = body.ranks ?? [];
  const wanted = new Set([
    ...body.replicas.map(({ id }) => id),
    ...ranks.map(({ id, rank }) => processNameOf(id, rank)),
  ]);
  const dropped = Object.keys(context.kept)
    .filter((id) => !wanted.has(id))
    .reduce<Keeping>((done, id) => also(done, release(done.context, id)), { context, effects: [] });
  const sole = body.replicas.reduce<Keeping>((done, one) => also(done, want(done.context, one)), dropped);
  const kept = startFreed(ranks.reduce<Keeping>((done, one) => also(done, wantRank(done.context, one)), sole));
  return {
    context: { ...kept.context, revision },
    effects: [report("node.assigned", { revision }), ...kept.effects],
  };
}

/** A process runs: the controller hears of it at once. Pure. */
export function applyStarted(
  context: NodeContext,
  { id, pid, port }: Pick<Extract<NodeEvent, { type: "keeper.started" }>, "id" | "pid" | "port">,
): Keeping {
  const kept = context.kept[id];
  if (kept?.state !== "running" && kept?.state !== "ending")
    return { context, effects: [{ type: "drop", kind: "keeper.started", reason: "not running" }] };
  const { host } = context;
  return {
    context: put(context, id, { ...kept, pid }),
    effects: [report("process.started", { ...processOf(id), host, pid, life: kept.life, ...(port ? { port } : {}) })],
  };
}

/** A process ended: evidence for the controller, and the next start, or none. Pure. */
export function applyExit(context: NodeContext, event: Exited): Keeping {
  const { id, pid, code, signal, oom, life, words } = event;
  const { host } = context;
  const more = { ...(oom ? { oom } : {}), ...(words === undefined ? {} : { words }) };
  const ended = report("process.exited", { ...processOf(id), host, pid, code, signal, life, ...more });
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
  if (kept.rank) return also({ context, effects: calm }, begin(context, id, { ...gone, state: "left" }));
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
  const livedMs = atMs - (kept.endedAtMs ?? atMs) - restartDelayMs(kept.deaths.length);
  if (isKillSignal(signal) && !oom && livedMs >= goodLifeMs) return [];
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
  const delayMs = kept.rank ? Math.min(rankGraceMs, context.graceMs) : context.graceMs;
  return {
    context: put(context, id, { ...kept, isWanted: false, state: "ending" }),
    effects: [
      { type: "keeper.end", id, how: "term" },
      { type: "timer.start", id: `late-${id}`, delayMs, event: late },
    ],
  };
}

function want(context: NodeContext, wanted: Body<"node.assign">["replicas"][number]): Keeping {
  const { id, role, life: least, devices = null } = wanted;
  const kept = context.kept[id] ?? notYet(role, least);
  const next: Kept = { ...kept, isWanted: true, least, devices };
  const isOnOthers = kept.state === "running" && String(kept.held) !== String(devices);
  const isFine = (kept.life >= least && !isOnOthers) || kept.state === "pausing" || kept.state === "waiting";
  if (isFine) return { context: put(context, id, next), effects: [] };
  if (kept.state === "left") return start(context, id, next);
  if (kept.state === "retired") return start(context, id, { ...next, deaths: [] });
  // A life that the controller has evicted can not be trusted to leave by itself, and one on devices of others may not go on.
  const ended = put(context, id, { ...next, state: "ending" });
  return { context: ended, effects: [{ type: "keeper.end", id, how: "kill" }] };
}

/** Of what was never here: as if the life before the one that is asked for had left. */
function notYet(role: ReplicaRole, least: number): Kept {
  // no mutant: whoever asks for it says so again
  const isWanted = true;
  const nothing = { devices: null, held: null, pid: null, deaths: [], endedAtMs: null };
  return { role, isWanted, least, life: least - 1, state: "left", ...nothing };
}

/** A rank of a replica of several: a life that is over is ended at once, another one begins when the controller says so. */
function wantRank(context: NodeContext, rank: RankOrder): Keeping {
  const { role, life: least, devices = null } = rank;
  const id = processNameOf(rank.id, rank.rank);
  const kept = context.kept[id] ?? notYet(role, least);
  const next: Kept = { ...kept, isWanted: true, least, devices, rank };
  if (!hasProcess(kept)) return begin(context, id, { ...next, state: "left" });
  if (kept.life >= least || kept.state === "ending") return { context: put(context, id, next), effects: [] };
  const ended = put(context, id, { ...next, state: "ending" });
  return { context: ended, effects: [{ type: "keeper.end", id, how: "kill" }] };
}

/** Begins the life of a rank that is due, once. */
function begin(context: NodeContext, id: string, kept: Kept): Keeping {
  const isDue = kept.rank?.isDue === true && kept.life < kept.least;
  return isDue ? start(context, id, kept) : { context: put(context, id, kept), effects: [] };
}

/** Starts a replica, or has it wait for its devices: the controller gives no device twice, but only its node knows when a process has ended. */
function start(context: NodeContext, id: string, kept: Kept): Keeping {
  if (isTaken(context, id, kept.devices ?? []))
    return { context: put(context, id, { ...kept, state: "waiting", pid: null }), effects: [] };
  const { role, devices, rank } = kept;
  const life = rank ? kept.least : Math.max(kept.least, kept.life + 1);
  return {
    context: put(context, id, { ...kept, life, state: "running", held: devices, pid: null }),
    effects: [{ type: "keeper.start", id, role, life, devices, ...(rank ? { rank } : {}) }],
  };
}

/** Starts whoever waited for devices that nobody has any more. */
function startFreed(keeping: Keeping): Keeping {
  const waiting = Object.entries(keeping.context.kept).filter(([, { state }]) => state === "waiting");
  return waiting.reduce((done, [id, kept]) => also(done, start(done.context, id, kept)), keeping);
}

/** Whether another process of this node has one of these devices. */
function isTaken(context: NodeContext, id: string, devices: readonly string[]): boolean {
  return devices.some((device) =>
    Object.entries(context.kept).some(
      ([other, each]) => other !== id && hasProcess(each) && each.held?.includes(device),
    ),
  );
}

function hasProcess({ state }: Pick<Kept, "state">): boolean {
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
