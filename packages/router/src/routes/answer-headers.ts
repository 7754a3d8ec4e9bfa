/** Headers of answers: those of the engine that mean something to the client, and what the router knows of the answer. Pure. */
import type { IncomingHttpHeaders } from "node:http";
import { saySpans, type VersionSpan } from "../core/fence.ts";
import type { Headers } from "../core/parse-request.ts";

/** Of a connection, not of a message (RFC 9110, 7.6.1), or set anew here. */
const ownOfConnection = new Set([
  ...["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"],
  ...["transfer-encoding", "upgrade", "content-length", "date", "server"],
]);

/** Not for the engine: the router reads them, or they are of the client's connection. */
const notForEngines = new Set([...ownOfConnection, "host", "expect", "accept-encoding", "origin", "cookie"]);

/** Where clients show their tokens. */
const tokenHeaders = new Set(["authorization", "x-api-key"]);

const spansTextMax = 1024;

/** Headers for the engine. `token` takes the place of whatever the client showed to the router. */
export function headersForEngine(
  headers: Headers,
  { token, hasOwnTokens }: { readonly token: string | null; readonly hasOwnTokens: boolean },
): Record<string, string> {
  const sent: Record<string, string> = {};
  const hops = hopsIn(headers.connection);
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    const isOurs = name.startsWith("x-muster-") || (tokenHeaders.has(name) && hasOwnTokens);
    if (typeof value === "string" && !notForEngines.has(name) && !hops.has(name) && !isOurs) sent[name] = value;
  }
  sent["content-type"] = "application/json";
  if (token !== null) sent.authorization = `Bearer ${token}`;
  return sent;
}

/** What is known of an answer. */
export interface AnswerOrigin {
  readonly workerId: string;
  readonly attempts: number;
  /** Version that the answer itself names. */
  readonly named: string | null;
  readonly spans: readonly VersionSpan[];
  /** Version that the engine said when it was asked last. */
  readonly probed: string | null;
}

/** Headers of the answer. */
export function headersOfAnswer(from: IncomingHttpHeaders, origin: AnswerOrigin): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  const hops = hopsIn(from.connection);
  for (const name of Object.keys(from)) {
    const value = from[name];
    const isOfMessage = !ownOfConnection.has(name) && !hops.has(name);
    if (value !== undefined && isOfMessage && !name.startsWith("x-muster-")) headers[name] = value;
  }
  const { workerId, attempts, named, spans, probed } = origin;
  headers["x-muster-worker"] = workerId;
  headers["x-muster-attempts"] = `${attempts}`;
  const version = named ?? probed;
  headers["x-muster-weight-version-source"] = named !== null ? "answer" : probed !== null ? "probe" : "unverified";
  if (version !== null && isHeaderText(version)) headers["x-muster-weight-version"] = version;
  const text = saySpans(spans);
  if (text !== "" && text.length <= spansTextMax && isHeaderText(text)) headers["x-muster-weight-versions"] = text;
  return headers;
}

/** Of the usual message; `keep-alive` is of every connection. */
const noHops: ReadonlySet<string> = new Set();

/** Headers that a message names as those of its connection alone. */
function hopsIn(connection: string | readonly string[] | undefined): ReadonlySet<string> {
  if (connection === undefined || connection === "keep-alive") return noHops;
  const names = typeof connection === "string" ? connection : (connection ?? []).join(",");
  return new Set(names.split(",").map((name) => name.trim().toLowerCase()));
}

function isHeaderText(text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text);
}
