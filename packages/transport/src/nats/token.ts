/** The tokens by which a broker knows accounts and users: JSON Web Tokens signed by Ed25519 keys, as NATS writes them. */
import { createHash } from "node:crypto";
import { nkeys } from "@nats-io/nats-core";

/** A key that signs. */
export type KeyPair = ReturnType<typeof nkeys.createUser>;

const utf8 = new TextEncoder();

/** A new key of 256 random bits. */
export function newKey(kind: "operator" | "account" | "user"): KeyPair {
  if (kind === "user") return nkeys.createUser();
  return kind === "account" ? nkeys.createAccount() : nkeys.createOperator();
}

/** The key that a text stands for. @throws when it is none. */
export function keyOfSeed(seed: string): KeyPair {
  return nkeys.fromSeed(utf8.encode(seed));
}

/** The text that a key is kept as. */
export function seedOf(key: KeyPair): string {
  return new TextDecoder().decode(key.getSeed());
}

/** A token in which `issuer` says of `subject`, a public key, what `claims` holds. */
export function signToken(issuer: KeyPair, subject: string, name: string, claims: object): string {
  const said = { iat: Math.floor(Date.now() / 1_000), iss: issuer.getPublicKey(), name, sub: subject, nats: claims };
  const jti = createHash("sha256").update(JSON.stringify(said)).digest("base64url");
  const text = `${encode({ typ: "JWT", alg: "ed25519-nkey" })}.${encode({ jti, ...said })}`;
  return `${text}.${Buffer.from(issuer.sign(utf8.encode(text))).toString("base64url")}`;
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** Whom a token names; its signature is the server's to check. `null` when it names nobody. @throws SyntaxError when it is no token. */
export function nameIn(token: string): string | null {
  const { name } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
    readonly name?: unknown;
  };
  return typeof name === "string" ? name : null;
}
