/** What is said between whoever renders chat templates and the thread that does it, and the limits of both. */
import type { MessagePort } from "node:worker_threads";

/** What the thread starts with. */
export interface RenderStart {
  readonly port: MessagePort;
  /** One number in shared memory: how often the thread has answered. Its first answer says that it is ready. */
  readonly answers: Int32Array<SharedArrayBuffer>;
}

/** A template, and the variables that it is rendered with; `null`: it is only read. */
export interface RenderQuestion {
  readonly template: string;
  readonly variables: Readonly<Record<string, unknown>> | null;
}

/** The text, or why there is none: the template can not be read, it refuses these variables, or it exceeds a limit. */
export type RenderAnswer =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "unreadable" | "refused" | "excess"; readonly reason: string };

/** Bounds of one rendering. A template of a well-known model takes milliseconds. */
export const renderLimits = {
  /** Time for one rendering, during which the caller's thread waits. */
  ms: 1_000,
  /** Memory of the thread, in MiB. */
  megabytes: 512,
  /** Longest text, whole or in between, in characters. */
  characters: 4 * 2 ** 20,
  /** Longest list. */
  items: 1_000_000,
} as const;
