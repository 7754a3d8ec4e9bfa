/** One episode of an agent: the turns that were answered, as a tree that only grows. Pure: a session is the fold of its records. */
import { createHash } from "node:crypto";
import type { RewardAnswer } from "@muster/base";
import { isTable, tableOf } from "./answer-facts.ts";
import type { Headers } from "./parse-request.ts";
import { invalid } from "./reply.ts";

type Table = Readonly<Record<string, unknown>>;

/** What was drawn in a turn. */
export interface TurnTokens {
  readonly promptIds: readonly number[];
  readonly responseIds: readonly number[];
  /** Of each response token. */
  readonly logprobs: readonly number[];
  /** Which weights drew which response tokens; half-open spans. Empty when the engine does not say. */
  readonly versions: readonly { readonly version: string; readonly start: number; readonly end: number }[];
}

/** One request of an agent with its answer. */
export interface Turn {
  /** Digest of the request: the same request has the same answer. */
  readonly key: string;
  /** Number of the turn whose conversation this one continues; `null` for a first one. */
  readonly parent: number | null;
  /** Messages that came after the parent's answer, such as results of tools. */
  readonly added: readonly unknown[];
  /** The answer as the agent gets it. */
  readonly answer: Table;
  /** The message in the answer. */
  readonly message: Table;
  readonly tokens: TurnTokens;
}

/** What happened in a session, in order. Times are in milliseconds since 1970. */
export type SessionRecord =
  | { readonly kind: "begin"; readonly atMs: number; readonly metadata: Table; readonly keyDigest?: string }
  | { readonly kind: "turn"; readonly atMs: number; readonly turn: Turn }
  | { readonly kind: "reward"; readonly atMs: number; readonly reward: RewardAnswer }
  | { readonly kind: "end"; readonly atMs: number; readonly reason: "asked" | "idle" };

/** A session as its records make it. */
export interface Session {
  readonly metadata: Table;
  /** Digest of its key; `null` in sessions that began before sessions had keys. */
  readonly keyDigest: string | null;
  readonly turns: readonly Turn[];
  readonly byKey: ReadonlyMap<string, Turn>;
  /** A number alone where it has nothing beside it. */
  readonly reward: RewardAnswer | null;
  readonly ended: "asked" | "idle" | null;
  readonly usedMs: number;
}

/** A session without records. */
export const emptySession: Session = {
  ...{ metadata: {}, keyDigest: null, turns: [], byKey: new Map(), reward: null, ended: null, usedMs: 0 },
};

/** The session after one more record. */
export function withRecord(session: Session, record: SessionRecord): Session {
  const next = { ...session, usedMs: record.atMs };
  if (record.kind === "begin") return { ...next, metadata: record.metadata, keyDigest: record.keyDigest ?? null };
  if (record.kind === "reward") return { ...next, reward: record.reward };
  if (record.kind === "end") return { ...next, ended: record.reason };
  const { turn } = record;
  return { ...next, turns: [...session.turns, turn], byKey: new Map([...session.byKey, [turn.key, turn]]) };
}

/** A request of an agent: what its key is made from, and what is sent to an engine. */
export interface TurnRequest {
  readonly key: string;
  readonly isStream: boolean;
  readonly messages: readonly Table[];
  /** Asks for a whole answer with its tokens, and names a seed. */
  readonly body: Table;
}

/** Fields that a session sets itself, or that do not change what is drawn. */
const [own, shown] = [
  ["logprobs", "top_logprobs", "return_token_ids", "prompt_token_ids", "input_ids"],
  ["stream", "stream_options", "user"],
];

/** Headers with which a request demands weights: another demand is another request. */
const demands = ["x-muster-weight-version", "x-muster-min-weight-version", "x-muster-max-staleness"];

/** Reads a chat request. @throws Refused with 400 */
export function turnRequestOf(sessionId: string, body: Table, headers: Headers = {}): TurnRequest {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isTable))
    throw invalid("messages must be a list of objects, with at least one");
  if (body.n !== undefined && body.n !== 1) throw invalid("n must be 1: a turn of a session has one answer");
  const taken = own.find((field) => body[field] !== undefined && body[field] !== null && body[field] !== false);
  if (taken !== undefined) throw invalid(`${taken} is set by the session and must be left out`);
  if (body.stream !== undefined && body.stream !== null && typeof body.stream !== "boolean")
    throw invalid("stream must be true or false");
  const rounded = Object.keys(body).find(
    (field) => Number.isInteger(body[field]) && !Number.isSafeInteger(body[field]),
  );
  if (rounded !== undefined)
    throw invalid(
      `${rounded.slice(0, 64)} is a whole number beyond ${Number.MAX_SAFE_INTEGER}, which a session can not keep`,
    );
  const asked = Object.fromEntries(Object.entries(body).filter(([field]) => ![...own, ...shown].includes(field)));
  const demanded = Object.fromEntries(demands.flatMap((name) => (headers[name] ? [[name, headers[name]]] : [])));
  const key = digestOf(Object.keys(demanded).length === 0 ? asked : [asked, demanded]);
  // The same request at another engine draws the same tokens, as long as the weights are the same.
  const seed = Number.parseInt(digestOf([sessionId, key]).slice(0, 7), 16);
  return {
    ...{ key, messages, isStream: body.stream === true },
    body: { ...asked, seed: asked.seed ?? seed, stream: false, logprobs: true, return_token_ids: true },
  };
}

/** The turn that a conversation continues: of those that it begins with, the longest. */
export function parentOf(
  session: Session,
  messages: readonly Table[],
): { readonly parent: number | null; readonly added: readonly Table[] } {
  const asked = messages.map(canonicalMessage);
  /** Messages of each turn's conversation that this one begins with; 0 when it does not begin with it. */
  const lengths: number[] = [];
  for (const { parent, added, message } of session.turns) {
    const from = parent === null ? 0 : (lengths[parent] ?? 0);
    const rest = [...added, message].map((one) => canonicalMessage(one as Table));
    const isPrefix = (parent === null || from > 0) && rest.every((one, i) => one === asked[from + i]);
    lengths.push(isPrefix ? from + rest.length : 0);
  }
  const longest = Math.max(0, ...lengths);
  return { parent: longest === 0 ? null : lengths.lastIndexOf(longest), added: messages.slice(longest) };
}

/** A trajectory: prompt tokens, then what was drawn and what came in between. Response length: mask, log-probs and versions. */
export interface SessionSample {
  /** Turns whose responses are in it. */
  readonly turns: readonly number[];
  readonly tokens: readonly number[];
  readonly promptLength: number;
  /** 1 where a response token was drawn; 0 for templates, users and tools. */
  readonly lossMask: readonly number[];
  /** 0 where nothing was drawn. */
  readonly logprobs: readonly number[];
  /** `null` where nothing was drawn, or the engine did not say. */
  readonly versions: readonly (string | null)[];
}

/**
 * The trajectories of a session. A turn whose prompt begins with the tokens of its parent, prompt and response, continues the parent's trajectory. Any
 * other one begins a trajectory: a branch that is not the first, or a conversation that the template wrote anew. Every response is in exactly one.
 */
export function samplesOf({ turns }: Session): readonly SessionSample[] {
  const samples: SessionSample[] = [];
  /** Sample that ends with this turn, by turn. */
  const endsWith = new Map<number, number>();
  for (const [number, { parent, tokens }] of turns.entries()) {
    const at = parent === null ? undefined : endsWith.get(parent);
    const earlier = at === undefined ? undefined : samples[at];
    const isContinued = earlier?.tokens.every((id, i) => id === tokens.promptIds[i]) === true;
    if (at !== undefined && earlier && isContinued) {
      samples[at] = joined(earlier, number, tokens);
      endsWith.delete(parent as number);
      endsWith.set(number, at);
      continue;
    }
    const nothing = { turns: [], promptLength: tokens.promptIds.length, lossMask: [], logprobs: [], versions: [] };
    endsWith.set(number, samples.push(joined({ ...nothing, tokens: tokens.promptIds }, number, tokens)) - 1);
  }
  return samples;
}

function joined(
  earlier: SessionSample,
  number: number,
  { promptIds, responseIds, ...drawn }: TurnTokens,
): SessionSample {
  const between = promptIds.length - earlier.tokens.length;
  const gap = <T>(value: T): T[] => Array.from({ length: between }, () => value);
  const versionAt = (i: number) => drawn.versions.find(({ start, end }) => start <= i && i < end)?.version ?? null;
  return {
    turns: [...earlier.turns, number],
    tokens: [...promptIds, ...responseIds],
    promptLength: earlier.promptLength,
    lossMask: [...earlier.lossMask, ...gap(0), ...responseIds.map(() => 1)],
    logprobs: [...earlier.logprobs, ...gap(0), ...drawn.logprobs],
    versions: [...earlier.versions, ...gap(null), ...responseIds.map((_, i) => versionAt(i))],
  };
}

/** A message as it counts for whether two are the same: clients write the same one in several ways. */
function canonicalMessage({ role, content, tool_calls: calls, tool_call_id: call }: Table): string {
  const called = Array.isArray(calls) ? calls.map(canonicalCall) : [];
  return canonical([role, content === "" ? null : (content ?? null), called, call ?? null]);
}

/** Arguments of a call are JSON in a text, which clients that read them write anew. */
function canonicalCall(call: unknown): unknown {
  if (!isTable(call) || !isTable(call.function) || typeof call.function.arguments !== "string") return call;
  const { id, function: called } = call;
  return [id, called.name, tableOf(called.arguments as string) ?? called.arguments];
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  const sorted = (_: string, one: unknown): unknown =>
    isTable(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one;
  return JSON.stringify(value, sorted) ?? "null";
}
