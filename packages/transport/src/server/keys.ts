/** The keys of a local server: one that signs its accounts, and for each role one that signs the role's users. */
import type { Credentials } from "../nats/credentials.ts";
import { newKey, seedOf } from "../nats/token.ts";
import { type BrokerRole, brokerRoles } from "./roles.ts";

/** The users of a local server: those of each role, and `system` for {@link watchDisconnects}. */
export type ServerCredentials = Readonly<Record<BrokerRole | "system", Credentials>>;

/** What a server is made from. */
export interface ServerKeys {
  /** Seed of the key that signs the accounts. */
  readonly operator: string;
  readonly credentials: ServerCredentials;
  /** Users of the other jobs that the server has, by job. The account of `system` is the server's only one; its keys are not. */
  readonly others?: Readonly<Record<string, ServerCredentials>>;
}

/** Makes new ones, 256 random bits each. An account's own key signs nothing, so nobody keeps it. */
export function generateKeys(): ServerKeys {
  const credentialsOf = (user: string): Credentials => ({
    user,
    account: newKey("account").getPublicKey(),
    seed: seedOf(newKey("account")),
  });
  const users = [...brokerRoles, "system"].map((role) => [role, credentialsOf(role)]);
  return { operator: seedOf(newKey("operator")), credentials: Object.fromEntries(users) as ServerCredentials };
}

/** The keys of a server with users of every role: those of an earlier version lack the roles that it did not have. */
export function withRoles({ credentials, others = {}, ...keys }: ServerKeys): ServerKeys {
  const whole = (users: ServerCredentials): ServerCredentials => ({ ...generateKeys().credentials, ...users });
  const jobs = Object.entries(others).map(([job, users]) => [job, whole(users)] as const);
  return { ...keys, credentials: whole(credentials), others: Object.fromEntries(jobs) };
}

/** The keys of a server with users for these other jobs, too; those that it has already stay, and nobody's go. */
export function withJobs(keys: ServerKeys, jobs: readonly string[]): ServerKeys {
  const { account } = keys.credentials.system;
  const added = jobs.map((job) => {
    const { credentials } = generateKeys();
    return [job, { ...credentials, system: { ...credentials.system, account } }] as const;
  });
  return { ...keys, others: { ...Object.fromEntries(added), ...keys.others } };
}
