/**
 * Who a process is to the broker: a user of its role's account whose name is its id, by a token that says so. The credentials of a role
 * hold the key that signs such tokens; those of one replica hold its token, and its own key.
 */
import { keyOfSeed, newKey, seedOf, signToken } from "./token.ts";

/** Credentials of a role, or of one replica of it. */
export interface Credentials {
  /** The role. */
  readonly user: string;
  /** Public key of the role's account. */
  readonly account: string;
  /** What signs the tokens of the role's users; with a token, what proves that it is one's own. Never in argv, logs or messages. */
  readonly seed: string;
  /** Of one replica: its id, and what the broker knows it by. */
  readonly replica?: { readonly id: string; readonly token: string };
}

/** The only credentials with which one replica can connect, which say nothing in the name of another. */
export function credentialsOfReplica(role: Credentials, id: string): Credentials {
  if (role.replica) return role;
  const own = newKey("user");
  const token = signToken(keyOfSeed(role.seed), own.getPublicKey(), id, {
    type: "user",
    version: 2,
    issuer_account: role.account,
  });
  return { ...role, seed: seedOf(own), replica: { id, token } };
}

/** Where the broker sends answers to a user; nobody else may listen there. */
export function inboxPrefixOf(role: string, id: string): string {
  return `_INBOX_${role}.${id}`;
}
