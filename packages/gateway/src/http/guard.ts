/** Who may come in: tokens with scopes, host and origin, and how often. */
import { createHash, timingSafeEqual } from "node:crypto";
import { bearerOf, hostNameOf, namesAddress } from "@muster/http";
import { errors } from "../errors.ts";
import type { Refusal } from "../topology/state.ts";
import type { Scope } from "./routes.ts";

/** A token and what it may do. Only the digest of the token is kept. */
export interface Grant {
  readonly scope: Scope;
  readonly digest: Buffer;
}

const scopes: readonly Scope[] = ["read", "write", "admin"];
const tokenMin = 32;

/**
 * Reads grants, one line each: a scope, a space, a token of at least 32 characters. Empty lines and lines that begin with # are left out.
 *
 * @param path - Name of the file for messages.
 * @throws MUSTER_ERR_GATEWAY_TOKENS which names the line, never the token.
 */
export function grantsOf(text: string, path: string): readonly Grant[] {
  return text.split("\n").flatMap((raw, index) => {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) return [];
    const [scope = "", token = "", ...more] = line.split(/\s+/);
    const found = scopes.find((each) => each === scope);
    const fault = (reason: string) => errors.GatewayTokens({ path, line: index + 1, reason });
    if (found === undefined || more.length > 0) throw fault("it is not a scope and a token");
    if (token.length < tokenMin) throw fault(`the token has ${token.length} characters and needs ${tokenMin} or more`);
    return [{ scope: found, digest: digestOf(token) }];
  });
}

/** Whether a request's token allows a scope; null when it does. Without grants everything is allowed. */
export function checkToken(header: string | undefined, needed: Scope, grants: readonly Grant[]): Refusal | null {
  if (grants.length === 0) return null;
  const token = bearerOf(header);
  if (token === null)
    return { status: 401, message: "authorization: a bearer token is needed", field: "authorization" };
  const digest = digestOf(token);
  // All are compared, so that the time says nothing about the place of the match.
  const held = grants.filter((grant) => timingSafeEqual(grant.digest, digest));
  if (held.length === 0) return { status: 401, message: "authorization: the token is unknown", field: "authorization" };
  if (held.some(({ scope }) => scopes.indexOf(scope) >= scopes.indexOf(needed))) return null;
  return {
    status: 403,
    message: `authorization: the token's scope does not allow this, it needs ${needed}`,
    field: "authorization",
  };
}

/** What a request says of where it comes from and goes to. */
export interface Sent {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
}

/**
 * Refuses names that were made to point here and pages of other sites; null for everybody else. An address is always a good host, for a
 * name that was rebound is none.
 */
export function checkPlace(
  { host, origin, fetchSite }: Sent,
  allowed: { readonly hosts: readonly string[]; readonly origins: readonly string[] },
): Refusal | null {
  const name = hostNameOf(host);
  if (!namesAddress(host) && !allowed.hosts.includes(name))
    return {
      status: 403,
      message: `host: "${name.slice(0, 100)}" is no name of this server; allow it with --allow-host`,
      field: "host",
    };
  const isOwn = origin === undefined || allowed.origins.includes(origin);
  if (
    !isOwn ||
    (origin === undefined && fetchSite !== undefined && fetchSite !== "none" && fetchSite !== "same-origin")
  )
    return {
      status: 403,
      message: "origin: pages of other sites may not call this; allow one with --allow-origin",
      field: "origin",
    };
  return null;
}

/** Requests by address: each has a bucket that fills at a rate. The number of addresses is bounded. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  constructor({ perSecond, burst }: { readonly perSecond: number; readonly burst: number }) {
    this.#perSecond = perSecond;
    this.#burst = burst;
  }

  /** Whether this address may ask at `nowMs`. */
  take(address: string, nowMs: number): boolean {
    const bucket = this.#buckets.get(address) ?? { tokens: this.#burst, at: nowMs };
    const tokens = Math.min(this.#burst, bucket.tokens + ((nowMs - bucket.at) / 1_000) * this.#perSecond);
    this.#buckets.delete(address);
    this.#buckets.set(address, { tokens: Math.max(0, tokens - 1), at: nowMs });
    if (this.#buckets.size > addressesMax) this.#forgetOldest();
    return tokens >= 1;
  }

  #forgetOldest(): void {
    const [oldest] = this.#buckets.keys();
    if (oldest !== undefined) this.#buckets.delete(oldest);
  }
}

const addressesMax = 4_096;

const digestOf = (token: string): Buffer => createHash("sha256").update(token).digest();
