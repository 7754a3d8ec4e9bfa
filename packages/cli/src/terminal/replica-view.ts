/**
 * What a person sees of a replica that was started by hand: who it is, what it holds and does now on one live line, and a line for what an operator
 * should know. It is made of what the replica logs; the log itself, in full, goes to its file.
 */
import { type Clock, formatDuration } from "@muster/base";
import { cleanLine, clockTime, shorten } from "../report/text.ts";
import { LiveLine, type Row } from "./live-line.ts";
import type { Terminal } from "./terminal.ts";

/** A line of the log; only what is used here. */
interface Entry {
  readonly level?: string;
  readonly msg?: string;
  readonly kind?: string;
  readonly from?: string;
  readonly to?: string;
  readonly version?: number;
  readonly id?: string;
  readonly code?: number | null;
  readonly signal?: string | null;
  readonly reason?: string;
  readonly outcome?: string;
  readonly error?: { readonly message?: string } | string;
}

/** What a view is made from. */
export interface ReplicaViewOptions {
  readonly terminal: Terminal;
  readonly clock: Clock;
  readonly wallMs: () => number;
  readonly id: string;
  readonly role: string;
}

/** What is counted, by role: the message that ends one piece of work, and the word for it. */
const works: Readonly<Record<string, { readonly kind: string; readonly word: string }>> = {
  rollout: { kind: "groups.generated", word: "groups" },
  policy: { kind: "step.promoted", word: "steps" },
  checkpoint: { kind: "checkpoint.written", word: "checkpoints" },
};

/** States that people need not read as a machine spells them. */
const idle: ReadonlySet<string> = new Set(["ready", "waiting", "member", "left"]);

/** Shows one replica. */
export class ReplicaView {
  readonly #options: ReplicaViewOptions;
  readonly #line: LiveLine;
  readonly #startedMs: number;
  readonly #processes = new Set<string>();
  #version: number | null = null;
  #done = 0;
  #phase = "joining";
  #isMember = false;

  constructor(options: ReplicaViewOptions) {
    this.#options = options;
    this.#startedMs = options.clock.now();
    this.#line = new LiveLine({ ...options, row: (width) => this.#row(width) });
    this.#line.changed();
  }

  /** Takes a line of the log. */
  take(text: string): void {
    const entry = JSON.parse(text) as Entry;
    const news = this.#newsOf(entry);
    if (news !== null) this.say(news);
    this.#line.changed();
  }

  /** Says a line. */
  say(news: string): void {
    this.#line.note(cleanLine(news), `${clockTime(this.#options.wallMs())}  `);
  }

  end(): void {
    this.#line.end();
  }

  #newsOf(entry: Entry): string | null {
    const { level, msg = "", version } = entry;
    if (msg === "state changed") return this.#moved(entry);
    if (msg === "weights arrived" || msg === "weights published") this.#version = version ?? this.#version;
    if (msg === "process started") return this.#started(entry);
    if (msg === "process ended") return this.#processEnded(entry);
    if (msg === "process is stopping") return "- leaving: what is not finished goes back; once more ends it at once";
    // Any other end is in the last words of the process.
    if (msg === "replica ended") return entry.outcome === "left" ? `- left: ${entry.reason}` : null;
    return level === "warn" || level === "error" ? `! ${msg}${causeOf(entry)}` : null;
  }

  #moved({ kind, to = "" }: Entry): string | null {
    if (kind === works[this.#options.role]?.kind) this.#done += 1;
    const wasMember = this.#isMember;
    const states = to.split("|").map((state) => state.split(".").at(-1) ?? "");
    this.#isMember = to.startsWith("membership.member");
    this.#phase = states.find((state) => !idle.has(state)) ?? (this.#isMember ? "idle" : "leaving");
    if (this.#isMember === wasMember) return null;
    if (this.#isMember) return "+ joined";
    return to.startsWith("membership.registering") ? "? away from the controller: joining again" : null;
  }

  #started({ id = "" }: Entry): string {
    this.#processes.add(id);
    return `+ ${id} started`;
  }

  #processEnded({ id = "", code, signal }: Entry): string {
    this.#processes.delete(id);
    return code === 0 ? `- ${id} ended` : `! ${id} ended with ${signal ?? `code ${code}`}`;
  }

  #row(width: number): Row {
    const { id, role, clock } = this.#options;
    const work = works[role];
    const parts = [
      id,
      ...(role === "node" ? [`${this.#processes.size} processes`] : [this.#phase]),
      ...(this.#version === null ? [] : [`v${this.#version}`]),
      ...(work ? [`${this.#done} ${work.word}`] : []),
      `for ${formatDuration(clock.now() - this.#startedMs)}`,
    ];
    const plain = shorten(parts.join("  "), width);
    return { plain, painted: plain };
  }
}

function causeOf({ error, reason, id }: Entry): string {
  const cause = typeof error === "string" ? error : (error?.message ?? reason);
  return `${id === undefined ? "" : ` (${id})`}${cause === undefined ? "" : `: ${cause}`}`;
}
