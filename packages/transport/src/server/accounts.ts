/**
 * The accounts of a job's broker, as tokens that its operator signs. The streams belong to an account of the controller. Every other role
 * is an account of its own that sees of it what it imports: a server does not check the reply subject of a message, so within one
 * account an answer can be led into any place. A role's key signs users whose name, their id, stands in their permissions.
 */
import { keyOfSeed, signToken } from "../nats/token.ts";
import type { ServerCredentials, ServerKeys } from "./keys.ts";
import { answersOften, type BrokerRole, brokerRoles, type Import, importsOf, permissionsOf } from "./roles.ts";

/** An account by its public key, and what the server is told of it. */
export interface Account {
  readonly name: string;
  readonly key: string;
  readonly token: string;
}

const unlimited = -1;
/** Only plain clients: no leaf nodes, no browsers. */
const user = { subs: unlimited, data: unlimited, payload: unlimited, allowed_connection_types: ["STANDARD"] };
const limits = {
  subs: unlimited,
  data: unlimited,
  payload: unlimited,
  imports: unlimited,
  exports: unlimited,
  conn: unlimited,
  wildcards: true,
};
const storage = { mem_storage: unlimited, disk_storage: unlimited, streams: unlimited, consumer: unlimited };
/** Who asks at the desk is known by the server alone, and waits for no longer. */
const answers = { max: 1, ttl: 10e9 };
/** In its place the server puts the name of a user: the id of who connects. */
const idOfUser = "{{name()}}";

/** The operator's own token. */
export function operatorToken({ operator }: ServerKeys): string {
  const key = keyOfSeed(operator);
  return signToken(key, key.getPublicKey(), "muster", { type: "operator", version: 2 });
}

/** Every account of a job's broker. */
export function accountsOf(job: string, { operator, credentials }: ServerKeys): readonly Account[] {
  const signer = keyOfSeed(operator);
  return ([...brokerRoles, "system"] as const).map((role) => {
    const { account } = credentials[role];
    const name = role === "controller" ? "JOB" : role === "system" ? "SYS" : role.toUpperCase();
    const claims = { ...claimsOf(job, role, credentials), type: "account", version: 2, default_permissions: {} };
    return { name, key: account, token: signToken(signer, account, name, claims) };
  });
}

function claimsOf(job: string, role: BrokerRole | "system", credentials: ServerCredentials): object {
  const template = { ...permissionsIn(job, role), ...user };
  const key = keyOfSeed(credentials[role].seed).getPublicKey();
  const common = { limits, signing_keys: [{ kind: "user_scope", key, role, template }] };
  if (role === "system") return common;
  if (role === "controller") return { ...common, limits: { ...limits, ...storage }, exports: exportsOf(job) };
  const from = credentials.controller.account;
  const imports = importsOf(job, role).map(({ kind, subject, local }) => ({
    name: local ?? subject,
    subject,
    ...(local === undefined ? {} : { local_subject: local }),
    account: from,
    type: kind,
  }));
  return { ...common, imports };
}

function permissionsIn(job: string, role: BrokerRole | "system"): object {
  if (role === "system") return { pub: { deny: [">"] }, sub: { allow: ["$SYS.ACCOUNT.*.DISCONNECT"] } };
  const { publish, subscribe } = permissionsOf(job, role, idOfUser);
  const own = { pub: { allow: publish }, sub: { allow: subscribe } };
  return role === "controller" ? { ...own, resp: answers } : own;
}

/** What the controller's account lends out. Which account gets what stands in that account's imports, which the operator signs. */
function exportsOf(job: string): readonly object[] {
  const found = new Map<string, Import>();
  for (const role of brokerRoles)
    if (role !== "controller")
      for (const place of importsOf(job, role)) found.set(`${place.kind} ${place.subject}`, place);
  return [...found.values()].map(({ kind, subject }) => ({
    name: `${kind} ${subject}`,
    subject,
    type: kind,
    ...(kind === "service" && answersOften(subject) ? { response_type: "Stream" } : {}),
  }));
}
