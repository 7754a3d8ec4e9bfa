/**
 * One line for each recovery: who was lost or silent, what went on after how long, and when it was back. The events that such a line sums up are
 * not told one by one. When a recovery is over is what incidents say it is. Pure but for what it remembers.
 */
import type { EventMessage } from "@muster/client";
import { applyFact, emptyIncidentLog, type IncidentFact, type IncidentLog } from "@muster/machines";
import type { Body } from "@muster/protocol";
import { cleanLine, duration } from "../report/text.ts";

/** What an event means for the lines of a run. */
export interface Told {
  /** True when the line of a recovery says it, or will. */
  readonly isPart: boolean;
  /** Recoveries that are over, or that are not waited for any longer. */
  readonly lines: readonly string[];
}

/** Somebody who is lost or silent, or an attempt that failed. */
interface Story {
  /** As incidents name their target. */
  readonly target: string;
  readonly role: string | null;
  readonly evidence: string;
  readonly sinceMs: number;
  readonly deaths: number;
  /** Groups that it held. */
  readonly groups: number;
  /** Step that began again. */
  readonly step: number | null;
  readonly backAtMs: number | null;
  /** True for a trainer that waits for its mesh. */
  readonly isInMesh: boolean;
}

/** So long a line waits for who was lost to be back. */
const backMs = 15_000;
/** So long for the job to go on. */
const patienceMs = 60_000;

const untold: Told = { isPart: false, lines: [] };

/** Gathers the recoveries of one run. */
export class Recoveries {
  #log: IncidentLog = emptyIncidentLog;
  readonly #stories = new Map<string, Story>();

  /** What is not over, in a few words; `null` for nothing. */
  get open(): string | null {
    const [first, ...others] = this.#stories.values();
    if (!first) return null;
    const what = first.deaths > 0 ? "died" : first.role === null ? "begins again" : "is silent";
    return `! ${first.target} ${what}${others.length > 0 ? `, ${others.length} more` : ""}`;
  }

  take(event: EventMessage): Told {
    const atMs = event.sentAtMs;
    const before = this.#log;
    this.#log = applyFact(before, { kind: event.kind, body: event.body, atMs } as IncidentFact);
    if (event.kind === "job.ended") return { isPart: false, lines: this.end(atMs) };
    const isPart = this.#hear(event);
    const over = [...this.#stories.values()].filter((story) => this.#isOver(story, atMs));
    const lines = over.map((story) => this.#tell(story, atMs));
    return isPart || lines.length > 0 ? { isPart, lines } : untold;
  }

  /** Tells what is not over. */
  end(atMs: number): readonly string[] {
    return [...this.#stories.values()].map((story) => this.#tell(story, atMs));
  }

  /** @returns True when the event belongs to a recovery. */
  #hear({ kind, body, sentAtMs }: EventMessage): boolean {
    switch (kind) {
      case "member.suspected":
        return this.#opened(body, sentAtMs, 0);
      case "member.died":
        // Who had left a job that is taken up again was not lost now.
        return this.#isLost(body) && this.#opened(body, sentAtMs, 1);
      case "member.recovered":
        return this.#changed(body.id, (story) => ({ ...story, backAtMs: sentAtMs }));
      case "member.joined":
        return this.#changed(body.id, (story) => (story.deaths > 0 ? { ...story, backAtMs: sentAtMs } : story));
      case "member.left":
        this.#stories.delete(body.id);
        return false;
      case "groups.released":
        return this.#changed(body.holder, (story) => ({ ...story, groups: story.groups + body.items.length }));
      case "groups.resumed":
        return [...this.#stories.values()].some(({ groups }) => groups > 0);
      case "mesh.changed":
        return this.#meshed(body.members);
      case "step.retried":
        return this.#retried(body, sentAtMs);
      default:
        return false;
    }
  }

  #isLost({ incarnation }: Body<"member.died">): boolean {
    return this.#log.incidents.some((one) => one.incarnation === incarnation && one.kind.endsWith(".died"));
  }

  #opened({ id, role, evidence }: Body<"member.died">, atMs: number, deaths: 0 | 1): true {
    const known = this.#stories.get(id);
    const fresh = { target: id, role, sinceMs: atMs, deaths: 0, groups: 0, step: null };
    const story = known ?? { ...fresh, evidence, backAtMs: null, isInMesh: false };
    const after = deaths > 0 ? { evidence, backAtMs: null, isInMesh: false } : {};
    this.#stories.set(id, { ...story, ...after, deaths: story.deaths + deaths });
    return true;
  }

  #changed(target: string, change: (story: Story) => Story): boolean {
    const story = this.#stories.get(target);
    if (story) this.#stories.set(target, change(story));
    return story !== undefined;
  }

  /** A mesh without who was lost, and later one with it, are parts of its recovery. */
  #meshed(members: readonly string[]): boolean {
    const trainers = [...this.#stories.values()].filter(({ role }) => role === "policy");
    for (const story of trainers)
      if (story.backAtMs !== null && members.includes(story.target))
        this.#stories.set(story.target, { ...story, isInMesh: true });
    return trainers.length > 0;
  }

  /** An attempt that failed because a trainer died belongs to that death. */
  #retried({ step, reason }: Body<"step.retried">, atMs: number): true {
    const trainer = [...this.#stories.values()].find(({ role, deaths }) => role === "policy" && deaths > 0);
    if (trainer) return this.#changed(trainer.target, (story) => ({ ...story, step })) as true;
    const target = `step ${step}`;
    if (this.#changed(target, (story) => story)) return true;
    const bare = { deaths: 0, groups: 0, step, backAtMs: null, isInMesh: false };
    this.#stories.set(target, { target, role: null, evidence: reason, sinceMs: atMs, ...bare });
    return true;
  }

  /** After how long the job had recovered; `null` while it has not. */
  #recoveredMs({ target, sinceMs }: Story): number | null {
    const incident = this.#log.incidents.findLast((one) => one.target === target && one.detectedAtMs >= sinceMs);
    return incident?.recoveredAtMs == null ? null : Math.max(0, incident.recoveredAtMs - sinceMs);
  }

  #isOver(story: Story, atMs: number): boolean {
    const waitedMs = atMs - story.sinceMs;
    if (this.#recoveredMs(story) === null) return waitedMs > patienceMs;
    if (story.deaths === 0) return story.role === null || story.backAtMs !== null;
    const isBack = story.backAtMs !== null && (story.role !== "policy" || story.isInMesh);
    // What a sampler held is said right behind its death.
    return isBack || waitedMs > backMs;
  }

  #tell(story: Story, atMs: number): string {
    this.#stories.delete(story.target);
    const { target, role, deaths, evidence, sinceMs, backAtMs } = story;
    const recoveredMs = this.#recoveredMs(story);
    const waited = `not over after ${duration(atMs - sinceMs)}`;
    const reason = cleanLine(evidence);
    if (role === null)
      return `! ${target} began again: ${reason}; ${recoveredMs === null ? waited : `done after ${duration(recoveredMs)}`}`;
    if (deaths === 0)
      return `? ${target} was silent: ${reason}; ${backAtMs === null ? waited : `heard again after ${duration(backAtMs - sinceMs)}`}`;
    const back =
      backAtMs === null ? `not back after ${duration(atMs - sinceMs)}` : `back after ${duration(backAtMs - sinceMs)}`;
    const parts = [`${reason}`, ...(recoveredMs === null ? [waited] : wentOn(story, recoveredMs)), back];
    return `! ${target} died${deaths > 1 ? ` ${deaths} times` : ""}: ${parts.join("; ")}`;
  }
}

/** What went on without who died, and after how long. */
function wentOn({ role, groups, step }: Story, afterMs: number): readonly string[] {
  const after = `after ${duration(afterMs)}`;
  if (role === "policy")
    return [step === null ? `training went on ${after}` : `step ${step} began again, done ${after}`];
  if (role !== "rollout" || groups === 0) return [];
  return [`its ${groups === 1 ? "group" : `${groups} groups`} went on at others ${after}`];
}
