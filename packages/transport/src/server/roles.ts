/** What the broker lets each role say and hear. Everything not listed here is refused by the server, whatever a process tries. */
import { brokerStream, type StreamName, stateBucket, streamNames } from "../streams.ts";

/** The users of a job's broker. `watcher` only looks. */
export const brokerRoles = ["controller", "policy", "rollout", "checkpoint", "node", "operator", "watcher"] as const;

/** One of the {@link brokerRoles}. */
export type BrokerRole = (typeof brokerRoles)[number];

/** Allow-lists of subjects; nothing else is allowed. */
export interface Permissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/** Where the broker sends answers to a role. One per role, so no role can read another's. */
export function inboxPrefixOf(role: BrokerRole): string {
  return `_INBOX_${role}`;
}

/**
 * The permissions of a role. Replicas of one role share a user, so the broker can not tell them apart: a rollout can send a report
 * in the name of another rollout, which receivers detect by the incarnation, but never a command or a record of the journal.
 */
export function permissionsOf(job: string, role: BrokerRole): Permissions {
  const { publish, subscribe } = rulesOf(job)[role];
  return { publish, subscribe: [`${inboxPrefixOf(role)}.>`, ...subscribe] };
}

function rulesOf(job: string): Readonly<Record<BrokerRole, Permissions>> {
  const root = `muster.${job}`;
  const own = (role: BrokerRole): string[] => [
    `${root}.hb.${role}.>`,
    `${root}.reports.${role}.>`,
    ...consumerApi(job, "commands"),
  ];
  const probes = [`${root}.probe.*`];
  const watch = [`${root}.events.>`, `${root}.hb.>`];
  return {
    controller: { publish: controllerApi(job), subscribe: [`${root}.hb.>`] },
    policy: { publish: [...own("policy"), ...readApi(brokerStream(job, "groups"))], subscribe: probes },
    rollout: { publish: [...own("rollout"), `${root}.groups.>`], subscribe: probes },
    checkpoint: { publish: own("checkpoint"), subscribe: probes },
    node: { publish: own("node"), subscribe: probes },
    operator: {
      publish: [`${root}.reports.operator.>`, ...followApi(job, "events"), ...readApi(`KV_${stateBucket(job)}`)],
      subscribe: watch,
    },
    watcher: { publish: followApi(job, "events"), subscribe: watch },
  };
}

/** The controller owns the streams of its job, but can not delete or reshape one. */
function controllerApi(job: string): string[] {
  const root = `muster.${job}`;
  const bucket = stateBucket(job);
  const streams = streamNames.flatMap((name) => {
    const stream = brokerStream(job, name);
    return [...createApi(stream), ...readApi(stream), `$JS.API.STREAM.PURGE.${stream}`, ...consumerApi(job, name)];
  });
  return [
    `${root}.hb.controller.>`,
    `${root}.probe.>`,
    `${root}.commands.>`,
    `${root}.journal`,
    `${root}.events.>`,
    `$KV.${bucket}.>`,
    ...createApi(`KV_${bucket}`),
    ...readApi(`KV_${bucket}`),
    ...streams,
  ];
}

function createApi(stream: string): string[] {
  return [`$JS.API.STREAM.CREATE.${stream}`, `$JS.API.STREAM.INFO.${stream}`];
}

function readApi(stream: string): string[] {
  return [`$JS.API.STREAM.MSG.GET.${stream}`, `$JS.API.DIRECT.GET.${stream}`];
}

/** Reading a stream through a consumer. */
function consumerApi(job: string, name: StreamName): string[] {
  const stream = brokerStream(job, name);
  const verbs = ["CREATE", "INFO", "DELETE", "MSG.NEXT"].map((verb) => `$JS.API.CONSUMER.${verb}.${stream}.>`);
  return [...verbs, `$JS.ACK.${stream}.>`];
}

/** Following a stream from a position or from now. */
function followApi(job: string, name: StreamName): string[] {
  return [...consumerApi(job, name), `$JS.API.STREAM.INFO.${brokerStream(job, name)}`];
}
