/** Whose session it is: each has a key of its own, so that an agent reads, rewards and ends its session and no other. */
import { createHash, randomBytes } from "node:crypto";
import { bearerOf, isSameSecret } from "@muster/http";
import type { Headers } from "../core/parse-request.ts";
import { invalid, Refused } from "../core/reply.ts";
import type { Session } from "../core/session.ts";
import type { SessionStore } from "../sessions/session-store.ts";
import { hasTokens, type Tokens } from "./guard.ts";

const keyPattern = /^[\x21-\x7e]{32,256}$/;

/** A key for a session whose owner names none. */
export function freshKey(): string {
  return randomBytes(24).toString("hex");
}

/** The key that a request names for its session. @throws Refused with 400 for one that is too short to be a secret */
export function keyIn(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && keyPattern.test(value)) return value;
  throw invalid("api_key must have 32 to 256 printable characters without spaces, for example: openssl rand -hex 32");
}

/** What is kept of a key. */
export function digestOfKey(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

/** True when this key opens this session. */
export function opens(key: string, { keyDigest }: Session): boolean {
  return keyDigest !== null && isSameSecret(digestOfKey(key), keyDigest);
}

/**
 * Lets the owner of a session through, and the admin. A server without tokens asks nobody. The key comes as a bearer token or, as Anthropic's clients
 * send it, in `x-api-key`.
 *
 * @throws Refused with 401 or 403; with 404 for holders of the server's tokens when there is no such session.
 */
export async function checkOwner(id: string, headers: Headers, store: SessionStore, tokens: Tokens): Promise<void> {
  if (!hasTokens(tokens)) return;
  const shown = bearerOf(`${headers.authorization ?? ""}`) ?? headers["x-api-key"];
  if (typeof shown !== "string") throw unauthorized("this needs the session's api_key, as Authorization: Bearer KEY");
  if (tokens.admin !== null && isSameSecret(tokens.admin, shown)) return;
  const isClient = tokens.inference !== null && isSameSecret(tokens.inference, shown);
  const session = await store.read(id).catch((error: unknown) => {
    // Who has no token learns nothing of which sessions there are.
    if (isClient || !(error instanceof Refused)) throw error;
    throw unauthorized("this key is not that of the session");
  });
  if (opens(shown, session)) return;
  if (!isClient) throw unauthorized("this key is not that of the session");
  throw new Refused({
    ...{ status: 403, code: "forbidden" },
    message: "authorization: this needs the session's own api_key, which POST /sessions returned",
  });
}

function unauthorized(why: string): Refused {
  return new Refused({ status: 401, code: "unauthorized", message: `authorization: ${why}` });
}
