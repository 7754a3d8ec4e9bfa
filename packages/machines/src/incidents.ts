/**
 * Incidents, made from the public events of a job (semantics 6.15): what went wrong, when it was noticed, when the job had recovered.
 * Pure. Whoever hears the events can compute them: the controller for its metrics, a run for its report, a test.
 */
import type { Body } from "@muster/protocol";
import type { AnnounceEffect } from "./controller/events.ts";

/** A public event and its time, in milliseconds of any clock that does not jump. */
export type IncidentFact = {
  [K in AnnounceEffect["kind"]]: { readonly kind: K; readonly body: Body<K>; readonly atMs: number };
}[AnnounceEffect["kind"]];

/** Something that went wrong. */
export interface Incident {
  /**
   * `<role>.died`; `member.suspected` and `member.hung` for what ended well; `controller.changed`; `step.retried` for an attempt that
   * failed without a death; `rollback`.
   */
  readonly kind: string;
  /** Id of the replica, `controller`, or `step <n>`. */
  readonly target: string;
  /** The life that it happened to; empty where there is none. */
  readonly incarnation: string;
  /** What was first noticed. */
  readonly evidence: string;
  /** First evidence. */
  readonly detectedAtMs: number;
  /** How long it had been silent then; 0 where the evidence was something else. */
  readonly silentMs: number;
  /** When the job went on; `null` while it does not. What that means depends on the kind: see {@link applyFact}. */
  readonly recoveredAtMs: number | null;
  /** Tokens that were sampled or trained for nothing. */
  readonly tokensWasted: number;
}

/** What is known of a job's incidents. */
export interface IncidentLog {
  /** In order of detection, the last {@link incidentsMax}. */
  readonly incidents: readonly Incident[];
  /** All incidents ever, by kind. */
  readonly counts: Readonly<Record<string, number>>;
  readonly tokensWasted: number;
  /** Work that was released and has no other holder yet: its id, and the incident that it belongs to. */
  readonly open: Readonly<Record<string, string>>;
  /** The life whose end was just said: what it held is said next, in the same breath. */
  readonly telling: string | null;
  /** Lengths of the last steps in which nothing went wrong. */
  readonly calm: readonly number[];
  /** True when something went wrong since the last commit. */
  readonly isDisturbed: boolean;
  readonly firstCommitMs: number | null;
  readonly lastCommitMs: number | null;
  /** Time since the first commit that was not lost. */
  readonly productiveMs: number;
  /** Trainers and samplers that are there. A controller that finds none takes up a job that had been interrupted. */
  readonly workers: number;
  /** True from there until the first commit: nodes and checkpoint actors of before had no time to say that they leave. */
  readonly isTakenUp: boolean;
}

/** Incidents that are remembered one by one. */
const incidentsMax = 2_048;
const calmMax = 256;

/** Nothing has happened. */
export const emptyIncidentLog: IncidentLog = {
  incidents: [],
  counts: {},
  tokensWasted: 0,
  open: {},
  telling: null,
  calm: [],
  isDisturbed: false,
  firstCommitMs: null,
  lastCommitMs: null,
  productiveMs: 0,
  workers: 0,
  isTakenUp: false,
};

/**
 * Takes one event. Recovered is: a rollout replica when the work that it held is leased again or trained (at once when it held none); a
 * policy replica, a failed attempt, a rollback at the next commit; a checkpoint actor or a node when it is a member again; a controller when the
 * next one acts (none has changed where nobody was there: the job had been interrupted); a silent replica when it is heard again or has left. Pure.
 */
export function applyFact(log: IncidentLog, fact: IncidentFact): IncidentLog {
  const isSameBreath = fact.kind === "groups.released" || fact.kind === "groups.quarantined";
  return take(isSameBreath || log.telling === null ? log : { ...log, telling: null }, fact);
}

/** With the workers counted anew after one came or went. */
function counted(log: IncidentLog, { kind, body }: IncidentFact): IncidentLog {
  const coming = kind === "member.joined" ? 1 : kind === "member.left" || kind === "member.died" ? -1 : 0;
  const isWorker = coming !== 0 && "role" in body && (body.role === "policy" || body.role === "rollout");
  return isWorker ? { ...log, workers: Math.max(0, log.workers + coming) } : log;
}

function take(before: IncidentLog, fact: IncidentFact): IncidentLog {
  const log = counted(before, fact);
  const { kind, body, atMs } = fact;
  switch (kind) {
    case "member.suspected":
    case "member.hung":
      return opened(log, { ...noticed(body, atMs), kind });
    case "member.recovered":
    case "member.left":
      return closed(log, atMs, (one) => isDoubt(one) && one.incarnation === body.incarnation);
    case "member.died":
      return log.isTakenUp && isOverWhenBack({ kind: `${body.role}.died` }) ? log : died(log, body, atMs);
    case "member.joined":
      return closed(log, atMs, (one) => isOverWhenBack(one) && one.target === body.id);
    case "groups.released":
      return released(log, body);
    case "groups.resumed":
      return resumed(log, body.items, atMs);
    case "groups.quarantined":
      return resumed(log, [body.item], atMs);
    case "eval.finished":
      return resumed(
        log,
        Object.keys(log.open).filter((item) => item.startsWith("eval.")),
        atMs,
      );
    case "step.retried":
      return retried(log, body, atMs);
    case "job.started":
      if (body.term <= 1) return log;
      return log.workers > 0 ? changed(log, body.term, atMs) : { ...log, isTakenUp: true };
    case "alarm.raised":
      return body.alarm === "rollback"
        ? opened(log, { ...unseen(atMs), kind: "rollback", target: "job", evidence: body.detail })
        : log;
    case "step.committed":
      return committed(closed(resumed(log, body.groups, atMs), atMs, isOverAtCommit), atMs);
    default:
      return log;
  }
}

/** The log of a job to which something happened that no event tells, as an outage of its broker: the step that takes longer for it is not all productive. Pure. */
export function disturbed(log: IncidentLog): IncidentLog {
  return { ...log, isDisturbed: true };
}

/** Share of the time since the first commit that was productive, 0 to 1: 1 without incidents, `null` before the second commit. Pure. */
export function ettrOf({ firstCommitMs, lastCommitMs, productiveMs }: IncidentLog): number | null {
  const spanMs = (lastCommitMs ?? 0) - (firstCommitMs ?? 0);
  if (spanMs <= 0) return null;
  // no mutant: no more than an error of rounding is above 1
  return Math.min(1, productiveMs / spanMs);
}

type Opening = Omit<Incident, "recoveredAtMs" | "tokensWasted">;

function opened(log: IncidentLog, opening: Opening): IncidentLog {
  const incident: Incident = { ...opening, recoveredAtMs: null, tokensWasted: 0 };
  return {
    ...log,
    isDisturbed: true,
    incidents: [...log.incidents, incident].slice(-incidentsMax),
    counts: moreOf(log.counts, incident.kind, 1),
  };
}

function moreOf(counts: IncidentLog["counts"], kind: string, by: number): IncidentLog["counts"] {
  return { ...counts, [kind]: (counts[kind] ?? 0) + by };
}

function closed(log: IncidentLog, atMs: number, isMeant: (incident: Incident) => boolean): IncidentLog {
  const isOver = (one: Incident): boolean => one.recoveredAtMs === null && isMeant(one);
  if (!log.incidents.some(isOver)) return log;
  return {
    ...log,
    incidents: log.incidents.map((one) => (isOver(one) ? { ...one, recoveredAtMs: atMs } : one)),
  };
}

/** A silence that ends in death was the first evidence of it. */
function died(log: IncidentLog, body: Body<"member.died">, atMs: number): IncidentLog {
  const kind = `${body.role}.died`;
  const silence = log.incidents.find(
    (one) => isDoubt(one) && one.incarnation === body.incarnation && one.recoveredAtMs === null,
  );
  const without = silence
    ? {
        ...log,
        incidents: log.incidents.filter((one) => one !== silence),
        counts: moreOf(log.counts, silence.kind, -1),
      }
    : log;
  const next = opened(without, { ...(silence ? openingOf(silence) : noticed(body, atMs)), kind });
  // What it held is said next; until then it held nothing.
  if (body.role !== "rollout") return next;
  return { ...closed(next, atMs, (one) => one.incarnation === body.incarnation), telling: body.incarnation };
}

/** Work that went back. That of a dead sampler is open: its incident is not over before the work has another holder. */
function released(log: IncidentLog, { items, tokensWasted = 0 }: Body<"groups.released">): IncidentLog {
  const counted = { ...log, tokensWasted: log.tokensWasted + tokensWasted };
  const { telling } = log;
  if (telling === null || items.length === 0) return counted;
  const open = { ...log.open, ...Object.fromEntries(items.map((item) => [item, telling])) };
  const incidents = log.incidents.map((one) =>
    one.incarnation === telling && one.kind === "rollout.died"
      ? { ...one, recoveredAtMs: null, tokensWasted: one.tokensWasted + tokensWasted }
      : one,
  );
  return { ...counted, open, incidents };
}

function resumed(log: IncidentLog, items: readonly string[], atMs: number): IncidentLog {
  if (!items.some((item) => log.open[item] !== undefined)) return log;
  const done = new Set(items);
  const open = Object.fromEntries(Object.entries(log.open).filter(([item]) => !done.has(item)));
  const waiting = new Set(Object.values(open));
  return closed(
    { ...log, open },
    atMs,
    ({ kind, incarnation }) => kind === "rollout.died" && !waiting.has(incarnation),
  );
}

/** An attempt that failed because somebody died belongs to that death. */
function retried(log: IncidentLog, { step, reason }: Body<"step.retried">, atMs: number): IncidentLog {
  const target = `step ${step}`;
  const isExplained = log.incidents.some(
    ({ kind, target: whom, recoveredAtMs }) =>
      recoveredAtMs === null && (kind === "policy.died" || (kind === "step.retried" && whom === target)),
  );
  if (isExplained) return log;
  return opened(log, { ...unseen(atMs), kind: "step.retried", target, evidence: reason });
}

function changed(log: IncidentLog, term: number, atMs: number): IncidentLog {
  const evidence = `term ${term} begins`;
  const next = opened(log, { ...unseen(atMs), kind: "controller.changed", target: "controller", evidence });
  return closed(next, atMs, ({ kind }) => kind === "controller.changed");
}

function isOverAtCommit({ kind }: Incident): boolean {
  return kind === "policy.died" || kind === "step.retried" || kind === "rollback";
}

/** A step in which something went wrong was productive for as long as a calm one takes. */
function committed(log: IncidentLog, atMs: number): IncidentLog {
  const { calm, firstCommitMs, isDisturbed, lastCommitMs, productiveMs } = log;
  // Two controllers' clocks may differ: a step never takes less than no time.
  const tookMs = lastCommitMs === null ? null : Math.max(0, atMs - lastCommitMs);
  const usefulMs = tookMs === null ? 0 : isDisturbed ? Math.min(tookMs, medianOf(calm) ?? tookMs) : tookMs;
  return {
    ...log,
    calm: tookMs === null || isDisturbed ? calm : [...calm, tookMs].slice(-calmMax),
    isTakenUp: false,
    isDisturbed: log.incidents.some(({ recoveredAtMs }) => recoveredAtMs === null),
    firstCommitMs: firstCommitMs ?? atMs,
    lastCommitMs: Math.max(lastCommitMs ?? atMs, atMs),
    productiveMs: productiveMs + usefulMs,
  };
}

function medianOf(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? null;
}

/** Doubt about a living member: it ends well, or is the first evidence of a death. */
function isDoubt({ kind }: Incident): boolean {
  return kind === "member.suspected" || kind === "member.hung";
}

function isOverWhenBack({ kind }: Pick<Incident, "kind">): boolean {
  return kind === "checkpoint.died" || kind === "node.died";
}

type Evidence = Pick<Body<"member.died">, "id" | "incarnation" | "evidence" | "silentMs">;

function noticed({ id, incarnation, evidence, silentMs = 0 }: Evidence, atMs: number): Omit<Opening, "kind"> {
  return { target: id, incarnation, evidence, detectedAtMs: atMs, silentMs };
}

/** Of something that is no member. */
function unseen(atMs: number): Pick<Opening, "incarnation" | "detectedAtMs" | "silentMs"> {
  return { incarnation: "", detectedAtMs: atMs, silentMs: 0 };
}

function openingOf({ target, incarnation, evidence, detectedAtMs, silentMs }: Incident): Omit<Opening, "kind"> {
  return { target, incarnation, evidence, detectedAtMs, silentMs };
}
