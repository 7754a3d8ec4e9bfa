/** Who may ask: requests that name this server as their host, come from its own page, and carry the token. Pure. */
import { bearerOf, isLoopback, isSameSecret, shownHost } from "@muster/http";

/** What a request says of itself. */
export interface Asked {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly authorization: string | undefined;
}

/** Why a request is not taken: its status, and a sentence for whoever sent it. */
export interface Refusal {
  readonly status: 401 | 403 | 421;
  readonly message: string;
}

/** Decides for one server. */
export interface Access {
  /** Names by which the server may be called, `host:port`. */
  readonly names: ReadonlySet<string>;
  readonly token: string;
}

/**
 * The names of a server: the address that it listens at, those of loopback where that reaches it, and those that an operator adds, which hold without a
 * port, too: a proxy listens at one that browsers leave out.
 */
export function namesOf(host: string, port: number, more: readonly string[]): ReadonlySet<string> {
  const isEverywhere = host === "0.0.0.0" || host === "::";
  const loopback = isEverywhere || isLoopback(host) ? ["127.0.0.1", "localhost", "[::1]"] : [];
  const own = isEverywhere ? [] : [shownHost(host)];
  const added = more.map((name) => name.toLowerCase());
  const named = [...own, ...loopback].map((name) => name.toLowerCase()).concat(added);
  return new Set([...added, ...named.flatMap((name) => [`${name}:${port}`, ...(port === 80 ? [name] : [])])]);
}

/** A page of the web whose name was made to point here, or that sends a browser's request here, is refused before the token is looked at. */
export function refusalOf({ names, token }: Access, asked: Asked, needsToken: boolean): Refusal | null {
  const host = asked.host?.toLowerCase() ?? "";
  if (!names.has(host))
    return { status: 421, message: `this server is not called "${host.slice(0, 80)}"; add the name with --allow-host` };
  if (asked.origin !== undefined && asked.origin !== `http://${host}` && asked.origin !== `https://${host}`)
    return { status: 403, message: `requests of pages of ${asked.origin.slice(0, 80)} are not taken` };
  if (!needsToken) return null;
  const given = bearerOf(asked.authorization);
  if (given === null) return { status: 401, message: "a token is missing: authorization: Bearer TOKEN" };
  if (!isSameSecret(given, token)) return { status: 401, message: "the token is not the one of this server" };
  return null;
}
