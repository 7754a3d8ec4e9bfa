/** Who may ask for what: names of this server, browsers, bearer tokens. Everything here is decided before a body is read. */
import { bearerOf, isLoopback, isSameSecret, namesAddress } from "@muster/http";
import type { Headers } from "../core/parse-request.ts";
import { Refused } from "../core/reply.ts";
import { errors } from "../errors.ts";

/** What a route gives: answers of engines, changes of the pool, or figures; `public` to everybody; `session` to whoever has its key, which the route looks at. */
export type Scope = "inference" | "admin" | "read" | "public" | "session";

/** Tokens of the two kinds of clients; `null` where none is asked for. */
export interface Tokens {
  readonly inference: string | null;
  readonly admin: string | null;
}

const tokenCharactersMin = 32;

/** @throws MUSTER_ERR_ROUTER_TOKEN for a token that is too short to be one: an empty secret must not open a route. */
export function checkToken(field: string, token: string): string {
  if (!/^[\x21-\x7e]+$/.test(token) || token.length < tokenCharactersMin)
    throw errors.RouterToken({ field, length: token.length });
  return token;
}

/**
 * Checks a request by its head.
 *
 * @param host - Where the server listens. On loopback a request must name an address or `localhost` as its host.
 * @throws Refused with 421, 403 or 401.
 */
export function checkHead(headers: Headers, scope: Scope, { host, tokens }: { host: string; tokens: Tokens }): void {
  if (isLoopback(host) && !namesAddress(`${headers.host ?? ""}`))
    throw new Refused({ status: 421, code: "misdirected", message: "host: it is not a name of this server" });
  const { origin, "sec-fetch-site": site } = headers;
  if (origin !== undefined || (site !== undefined && site !== "none" && site !== "same-origin"))
    throw new Refused({ status: 403, code: "forbidden", message: "origin: pages of the web are not answered" });
  if (scope === "public" || scope === "session" || !hasTokens(tokens)) return;
  const accepted = acceptedBy(scope, tokens);
  const { "x-api-key": key } = headers;
  // Clients of the Messages API show their token so.
  const shown = bearerOf(`${headers.authorization ?? ""}`) ?? (typeof key === "string" ? key : null);
  if (shown === null)
    throw new Refused({
      ...{ status: 401, code: "unauthorized" },
      message: "authorization: this needs a token, as Authorization: Bearer TOKEN",
    });
  if (accepted.some((token) => isSameSecret(token, shown))) return;
  const isKnown = [tokens.inference, tokens.admin].some((token) => token !== null && isSameSecret(token, shown));
  if (isKnown)
    throw new Refused({
      status: 403,
      code: "forbidden",
      message: "authorization: this token is not for this endpoint",
    });
  throw new Refused({ status: 401, code: "unauthorized", message: "authorization: this token is not known" });
}

/** True for a server that asks its clients who they are. */
export function hasTokens({ inference, admin }: Tokens): boolean {
  return inference !== null || admin !== null;
}

function acceptedBy(scope: Scope, { inference, admin }: Tokens): readonly string[] {
  const accepted = scope === "inference" ? [inference] : scope === "admin" ? [admin] : [inference, admin];
  return accepted.filter((token) => token !== null);
}
