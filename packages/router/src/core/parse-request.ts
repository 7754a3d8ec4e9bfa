/** What the router reads of a request before it chooses a worker. Pure. */
import { isNestedTooDeep } from "@muster/http";
import { isTable } from "./answer-facts.ts";
import type { Fence } from "./fence.ts";
import { withoutMember } from "./json-member.ts";
import { invalid, nestedTooDeep } from "./reply.ts";
import { promptOf } from "./token-stream.ts";

/** The routes that are given to engines. */
export const engineRoutes = ["/generate", "/v1/completions", "/v1/chat/completions"] as const;

/** One of the {@link engineRoutes}. */
export type EngineRoute = (typeof engineRoutes)[number];

/** Headers as Node gives them. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A request for an engine. */
export interface ParsedRequest {
  readonly route: EngineRoute;
  /** The body as it goes to the engine. */
  readonly bytes: Buffer;
  readonly body: Readonly<Record<string, unknown>>;
  readonly isStream: boolean;
  readonly fence: Fence;
  readonly stickyKey: string | null;
  /** Tokens of the prompt, when another engine could go on with the response. */
  readonly prompt: readonly number[] | null;
}

const keyMax = 256;
const versionMax = 128;

/** Reads a request. `fallback` holds where the request names no staleness itself. @throws Refused with 400 */
export function parseRequest(
  route: EngineRoute,
  bytes: Buffer,
  headers: Headers,
  fallback: Pick<Fence, "maxStaleness">,
): ParsedRequest {
  const body = parseBody(bytes);
  const { muster } = body;
  const rest = muster === undefined ? body : withoutMuster(body);
  checkPrompt(route, rest);
  if (rest.stream !== undefined && typeof rest.stream !== "boolean" && rest.stream !== null)
    throw invalid("stream must be true or false");
  const fence = fenceOf(headers, muster, fallback);
  return {
    route,
    fence,
    body: rest,
    // What the client wrote goes on byte for byte, but for what only the router reads.
    bytes: muster === undefined ? bytes : withoutMember(bytes, "muster"),
    isStream: rest.stream === true,
    stickyKey: keyOf(headers),
    prompt: route === "/generate" ? promptOf(rest) : null,
  };
}

function withoutMuster({ muster: _, ...rest }: ParsedRequest["body"]): ParsedRequest["body"] {
  return rest;
}

function parseBody(bytes: Buffer): Readonly<Record<string, unknown>> {
  const text = bytes.toString("utf8");
  if (isNestedTooDeep(text)) throw nestedTooDeep();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(
      `the body is not JSON: ${error instanceof Error ? error.message.slice(0, 120) : "it can not be read"}`,
    );
  }
  if (!isTable(value)) throw invalid("the body must be a JSON object");
  return value;
}

/** What no engine could answer is refused here: it would only be tried at one engine after another. */
function checkPrompt(route: EngineRoute, body: Readonly<Record<string, unknown>>): void {
  if (route === "/v1/chat/completions") {
    if (!Array.isArray(body.messages) || body.messages.length === 0)
      throw invalid("messages must be a list with at least one message");
    return;
  }
  if (route === "/v1/completions") {
    if (typeof body.prompt !== "string" && !Array.isArray(body.prompt))
      throw invalid("prompt must be a text, a list of texts, or a list of token ids");
    return;
  }
  if (body.text === undefined && body.input_ids === undefined && body.input_embeds === undefined)
    throw invalid("one of text, input_ids and input_embeds must be there");
  const { input_ids: ids } = body;
  const isIds = Array.isArray(ids) && ids.length > 0;
  if (ids !== undefined && ids !== null && !isIds) throw invalid("input_ids must be a list with at least one token id");
}

function keyOf(headers: Headers): string | null {
  for (const name of ["x-smg-routing-key", "x-session-id"]) {
    const value = textIn(headers, name);
    if (value === null || value === "") continue;
    if (value.length > keyMax) throw invalid(`${name} has ${value.length} characters, at most ${keyMax}`);
    return value;
  }
  return null;
}

function fenceOf(headers: Headers, muster: unknown, fallback: Pick<Fence, "maxStaleness">): Fence {
  if (muster !== undefined && !isTable(muster)) throw invalid("muster must be an object");
  const inBody = muster ?? {};
  const known = ["weight_version", "min_weight_version", "max_staleness"];
  const unknown = Object.keys(inBody).find((key) => !known.includes(key));
  if (unknown !== undefined)
    throw invalid(`muster.${unknown.slice(0, 64)} is not known; known are ${known.join(", ")}`);
  const exact = textIn(headers, "x-muster-weight-version") ?? versionIn(inBody.weight_version);
  if (exact !== null && (exact === "" || exact.length > versionMax))
    throw invalid(`x-muster-weight-version must have 1 to ${versionMax} characters`);
  const min = textIn(headers, "x-muster-min-weight-version") ?? inBody.min_weight_version;
  const staleness = textIn(headers, "x-muster-max-staleness") ?? inBody.max_staleness;
  return {
    exact,
    min: countOf("min-weight-version", "min_weight_version", min),
    maxStaleness: countOf("max-staleness", "max_staleness", staleness) ?? fallback.maxStaleness,
  };
}

function versionIn(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string") return value;
  if (typeof value === "number" && Number.isSafeInteger(value)) return `${value}`;
  throw invalid("muster.weight_version must be a text or a whole number");
}

function countOf(header: string, field: string, value: unknown): number | null {
  if (value === undefined || value === null) return null;
  const number = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  if (typeof number === "number" && Number.isSafeInteger(number) && number >= 0) return number;
  throw invalid(`x-muster-${header} (muster.${field}) must be a whole number from 0`);
}

function textIn(headers: Headers, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  if (typeof value !== "string") throw invalid(`${name} is given more than once`);
  return value;
}
