/**
 * Schedules responses over the decoder's cache slots. A group's prompt runs once, in its leader's slot, and is then copied;
 * finished rows leave the batch and waiting groups enter. A response does not depend on which rows share its batch.
 */
import { type Random, randomOf } from "@muster/base";
import type { Generated, GenerateRequest } from "../engine.ts";
import { breathe } from "./core.ts";
import type { Decoder } from "./decoder.ts";

/** What a run needs from the engine around it; read at every boundary. */
export interface SamplerHost {
  /** Slots of the decoder. */
  readonly slots: number;
  /** @throws MUSTER_ERR_ENGINE_NOT_READY when there are no weights. */
  version(): number;
  isAborted(requestId: string): boolean;
  /** While it is, the weights may change. */
  isFrozen(): boolean;
  /** Waits while the engine is frozen. */
  thaw(signal: AbortSignal): Promise<void>;
}

/** One response being drawn. */
interface Row {
  readonly index: number;
  readonly slot: number;
  readonly random: Random;
  /** Response tokens that are in the cache; fewer than `tokens` while what was begun before is read again. */
  fed: number;
  readonly tokens: number[];
  readonly logprobs: number[];
}

/** Responses of one request that were admitted together. */
interface Unit {
  readonly request: GenerateRequest;
  readonly results: Generated[];
  readonly versionAtStart: number;
  /** Live rows; the first one runs the prompt. */
  rows: Row[];
  /** Prompt tokens already in the cache; the last one is fed by every row. */
  prefilled: number;
}

/** Part of a request that waits for slots: responses `from` … `from + count − 1`. */
interface Waiting {
  readonly request: GenerateRequest;
  readonly results: Generated[];
  readonly from: number;
  readonly count: number;
}

/** One row of a batch. `row` is `null` while the prompt runs: then the choice is not used. */
interface Fed {
  readonly unit: Unit;
  readonly row: Row | null;
  readonly slot: number;
  readonly token: number;
  readonly position: number;
}

/** What one run works with; `free` holds the slots that no row uses. */
interface Run {
  readonly decoder: Decoder;
  readonly host: SamplerHost;
  readonly free: number[];
}

/** Work between two yields, in parameters read: about 15 ms. */
const workPerTurn = 2e8;
/** What feeding and settling a row costs besides, in the same unit. */
const workPerRow = 2e4;

/** Responses being drawn. */
export interface Sampling {
  /** All responses. Rejects with the signal's reason. */
  readonly done: Promise<readonly (readonly Generated[])[]>;
  /** As {@link RolloutEngine.drawn}. */
  drawn(requestId: string): readonly Generated[] | null;
}

/** Begins to draw. */
export function startSampler(
  decoder: Decoder,
  requests: readonly GenerateRequest[],
  options: { readonly host: SamplerHost; readonly signal: AbortSignal },
): Sampling {
  const results = requests.map((): Generated[] => []);
  const active: Unit[] = [];
  return {
    done: drawAll(decoder, requests, { ...options, results, active }),
    drawn: (requestId) => {
      const at = requests.findIndex((request) => request.requestId === requestId);
      const request = requests[at];
      return request ? drawnOf(request, results[at]!, active) : null;
    },
  };
}

function drawnOf(request: GenerateRequest, ended: readonly Generated[], active: readonly Unit[]): Generated[] | null {
  const units = active.filter((unit) => unit.request === request);
  if (units.length === 0 && ended.length === 0) return null;
  const rows = units.flatMap(({ rows, versionAtStart }) =>
    rows.map((row) => [row.index, generatedOf(row, "abort", [versionAtStart, versionAtStart])] as const),
  );
  const live = new Map(rows);
  return Array.from({ length: request.n }, (_, i) => ended[i] ?? live.get(i) ?? untouchedOf(request, i));
}

/** A response that still waits for a slot. */
function untouchedOf(request: GenerateRequest, index: number): Generated {
  const { responseIds = new Int32Array(), logprobs = new Float32Array(), finish } = request.begun?.[index] ?? {};
  return { responseIds, logprobs, finish: finish ?? "abort", versionAtStart: 0, versionAtEnd: 0 };
}

async function drawAll(
  decoder: Decoder,
  requests: readonly GenerateRequest[],
  options: {
    readonly host: SamplerHost;
    readonly signal: AbortSignal;
    readonly results: Generated[][];
    readonly active: Unit[];
  },
): Promise<readonly (readonly Generated[])[]> {
  const { host, signal, results, active } = options;
  const waiting = requests.flatMap((request, i) => cut(request, results[i]!, host.slots));
  const free = Array.from({ length: host.slots }, (_, slot) => slot).reverse();
  const run: Run = { decoder, host, free };
  let rowsFed = 0;
  while (waiting.length > 0 || active.length > 0) {
    while (host.isFrozen()) await host.thaw(signal);
    const version = host.version();
    while (waiting[0] && waiting[0].count <= free.length) active.push(admit(waiting.shift()!, free, version));
    for (const unit of active) if (host.isAborted(unit.request.requestId)) endAll(unit, run);
    const fed = active.flatMap((unit) => feedsOf(decoder, unit));
    const pass = decode(run, fed);
    if (pass !== undefined) await pass; // a core in this thread is done already: no other work comes in between
    fed.forEach(({ unit, row }, i) => {
      if (row) take(run, { unit, row, at: i });
    });
    active.splice(0, active.length, ...active.filter((unit) => unit.rows.length > 0));
    rowsFed += fed.length;
    if (rowsFed * (decoder.parameters + workPerRow) < workPerTurn) continue;
    rowsFed = 0;
    await breathe();
    signal.throwIfAborted();
  }
  return results;
}

/** Pieces of a request that fit the cache. */
function cut(request: GenerateRequest, results: Generated[], slots: number): Waiting[] {
  const pieces: Waiting[] = [];
  for (let from = 0; from < request.n; from += slots) {
    pieces.push({ request, results, from, count: Math.min(slots, request.n - from) });
  }
  return pieces;
}

function admit({ request, results, from, count }: Waiting, free: number[], versionAtStart: number): Unit {
  const rows: Row[] = [];
  for (let index = from; index < from + count; index++) {
    const begun = request.begun?.[index];
    if (begun?.finish) {
      const { responseIds, logprobs, finish } = begun;
      results[index] = { responseIds, logprobs, finish, versionAtStart, versionAtEnd: versionAtStart };
    } else rows.push(rowOf(request, index, free.pop()!));
  }
  return { request, results, rows, versionAtStart, prefilled: 0 };
}

/** A response at its beginning, or where it was interrupted: its random stream has given one number for each token. */
function rowOf(request: GenerateRequest, index: number, slot: number): Row {
  const random = randomOf(request.seed, (request.from ?? 0) + index);
  const { responseIds = [], logprobs = [] } = request.begun?.[index] ?? {};
  for (const _ of responseIds) random.next();
  return { index, slot, random, fed: 0, tokens: [...responseIds], logprobs: [...logprobs] };
}

/** What a unit feeds next: one prompt token, or one token of each live row. */
function feedsOf(decoder: Decoder, unit: Unit): Fed[] {
  const { promptIds } = unit.request;
  const last = promptIds.length - 1;
  const leader = unit.rows[0];
  if (leader && unit.prefilled < last) {
    const position = unit.prefilled++;
    return [{ unit, row: null, slot: leader.slot, token: promptIds[position]!, position }];
  }
  if (leader && unit.prefilled === last) {
    for (const member of unit.rows.slice(1)) decoder.copySlot(leader.slot, member.slot);
    unit.prefilled += 1;
  }
  return unit.rows.map((row) => ({
    unit,
    row,
    slot: row.slot,
    token: row.tokens[row.fed - 1] ?? promptIds[last]!,
    position: last + row.fed,
  }));
}

function decode({ decoder }: Run, fed: readonly Fed[]): Promise<void> | undefined {
  if (fed.length === 0) return;
  const { batch } = decoder;
  fed.forEach(({ unit, row, slot, token, position }, i) => {
    const { temperature } = unit.request.sampling;
    batch.tokens[i] = token;
    batch.positions[i] = position;
    batch.slots[i] = slot;
    batch.sharpness[i] = temperature === 0 ? 0 : 1 / temperature;
    batch.uniforms[i] = row && row.fed === row.tokens.length ? row.random.next() : 0;
  });
  return decoder.decode(fed.length);
}

/** Appends the choice of one row and ends the row when it is complete. */
function take(run: Run, { unit, row, at }: { readonly unit: Unit; readonly row: Row; readonly at: number }): void {
  const { batch, model } = run.decoder;
  const { promptIds, sampling } = unit.request;
  const isKnown = row.fed < row.tokens.length;
  row.fed += 1;
  if (isKnown) return;
  const token = batch.choices[at]!;
  row.tokens.push(token);
  row.logprobs.push(batch.logprobs[at]!);
  const limit = Math.min(sampling.maxNewTokens, model.maxContext - promptIds.length);
  if (sampling.stopTokenIds.includes(token)) end(run, { unit, row, finish: "stop" });
  else if (row.tokens.length === limit) end(run, { unit, row, finish: "length" });
}

function end(run: Run, { unit, row, finish }: { unit: Unit; row: Row; finish: Generated["finish"] }): void {
  unit.rows = unit.rows.filter((other) => other !== row);
  run.free.push(row.slot);
  unit.results[row.index] = generatedOf(row, finish, [unit.versionAtStart, run.host.version()]);
}

function generatedOf(
  { tokens, logprobs }: Row,
  finish: Generated["finish"],
  [versionAtStart, versionAtEnd]: readonly [number, number],
): Generated {
  return {
    responseIds: new Int32Array(tokens),
    logprobs: new Float32Array(logprobs),
    finish,
    versionAtStart,
    versionAtEnd,
  };
}

function endAll(unit: Unit, run: Run): void {
  for (const row of unit.rows) end(run, { unit, row, finish: "abort" });
}
