/**
 * The accounts of a job's broker, as tokens that its operator signs. The streams belong to an account of the controller. Every other role
 * is an account of its own that sees of it what it imports: a server does not check the reply subject of a message, so within one
 * account an answer can be led into any place. A role's key signs users whose name, their id, stands in their permissions.
 */
import { disconnectSubject } from "../nats/disconnects.ts";
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

/** Every account of a broker: those of its job, those of the other jobs that it has, and the server's own. */
export function accountsOf(job: string, { operator, credentials, others = {} }: ServerKeys): readonly Account[] {
  const signer = keyOfSeed(operator);
  const jobs = Object.entries({ ...others, [job]: credentials });
  const accountOf = (name: string, account: string, own: object): Account => {
    const claims = { limits, type: "account", version: 2, default_permissions: {}, ...own };
    return { name, key: account, token: signToken(signer, account, name, claims) };
  };
  const owned = jobs.flatMap(([name, users]) =>
    brokerRoles.map((role) =>
      accountOf(role === "controller" ? "JOB" : role.toUpperCase(), users[role].account, claimsOf(name, role, users)),
    ),
  );
  const keys = jobs.map(([, users]) => signingKey("system", users, hearsEndsOf(users)));
  return [...owned, accountOf("SYS", credentials.system.account, { signing_keys: keys })];
}

function signingKey(role: BrokerRole | "system", credentials: ServerCredentials, permissions: object): object {
  const key = keyOfSeed(credentials[role].seed).getPublicKey();
  return { kind: "user_scope", key, role, template: { ...permissions, ...user } };
}

/** Who hears of ended connections hears of those of its own job. */
function hearsEndsOf(credentials: ServerCredentials): object {
  const subjects = brokerRoles.map((role) => disconnectSubject(credentials[role].account));
  return { pub: { deny: [">"] }, sub: { allow: subjects } };
}

function claimsOf(job: string, role: BrokerRole, credentials: ServerCredentials): object {
  const common = { signing_keys: [signingKey(role, credentials, permissionsIn(job, role))] };
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

function permissionsIn(job: string, role: BrokerRole): object {
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
  const places = [...found.values()];
  // Who takes a part of what is lent out whole takes it from that: the broker refuses an account that lends out something twice.
  const isPart = ({ kind, subject }: Import): boolean =>
    places.some(
      (other) => other.kind === kind && subject !== other.subject && subject.startsWith(prefixOf(other.subject)),
    );
  return places
    .filter((place) => !isPart(place))
    .map(({ kind, subject }) => ({
      name: `${kind} ${subject}`,
      subject,
      type: kind,
      ...(kind === "service" && answersOften(subject) ? { response_type: "Stream" } : {}),
    }));
}

/** What every subject of a pattern that ends in `>` begins with; of another one, more than any other subject has. */
function prefixOf(pattern: string): string {
  return pattern.endsWith(".>") ? pattern.slice(0, -1) : `${pattern} `;
}
