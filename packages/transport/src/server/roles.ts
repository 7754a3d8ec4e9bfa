/**
 * What the broker lets each role say and hear, from which its accounts and their permissions are made. Everything not listed here
 * is refused by the server, whatever a process tries.
 */
import { kindsSaidBy, type Role } from "@muster/protocol";
import { inboxPrefixOf } from "../nats/credentials.ts";
import { brokerStream, deskSubject, type StreamName, stateBucket, streamNames } from "../streams.ts";

/** The users of a job's broker. `watcher` only looks. */
export const brokerRoles = ["controller", "policy", "rollout", "checkpoint", "node", "operator", "watcher"] as const;

/** One of the {@link brokerRoles}. */
export type BrokerRole = (typeof brokerRoles)[number];

/** Allow-lists of subjects; nothing else is allowed. */
export interface Permissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/** The permissions of one process of a role: it speaks in its own name alone, and nobody else hears the answers to it. */
export function permissionsOf(job: string, role: BrokerRole, id: string): Permissions {
  const { publish, subscribe } = rulesOf(job, id)[role];
  return { publish, subscribe: [`${inboxPrefixOf(role, id)}.>`, ...subscribe] };
}

/** The streams that a role reads through consumers; only the controller makes them, see `nats/desk.ts`. */
export function streamsReadBy(role: BrokerRole): readonly StreamName[] {
  if (role === "controller") return streamNames;
  return role === "operator" || role === "watcher" ? ["events"] : ["commands"];
}

/** A place in the account that owns the streams: a `service` takes the messages of others, of a `stream` others hear the messages. */
export interface Import {
  readonly kind: "service" | "stream";
  readonly subject: string;
}

/** What a role other than the controller gets from the account that owns the streams. */
export function importsOf(job: string, role: BrokerRole): readonly Import[] {
  const { publish, subscribe } = rulesOf(job, "*")[role];
  const services = [apiInfo, ...publish].map((subject): Import => ({ kind: "service", subject }));
  return [...services, ...subscribe.map((subject): Import => ({ kind: "stream", subject }))];
}

/** Who imports it gets the broker's whole API from nowhere else; without it the server answers some of it for the empty account of the role. */
const apiInfo = "$JS.API.INFO";

function rulesOf(job: string, id: string): Readonly<Record<BrokerRole, Permissions>> {
  const root = `muster.${job}`;
  const reading = (role: BrokerRole): string[] => [
    deskSubject(job, role, id),
    ...streamsReadBy(role).flatMap((name) => readerApi(job, name)),
  ];
  // One by one, since the stream bounds what waits on each of them.
  const reports = (role: Role): string[] =>
    kindsSaidBy(role, "report").map((kind) => `${root}.reports.${role}.${id}.${kind}`);
  const own = (role: Exclude<BrokerRole, "watcher">): string[] => [
    `${root}.hb.${role}.${id}`,
    ...reports(role),
    ...reading(role),
  ];
  const probes = [`${root}.probe.*`];
  const watch = [`${root}.events.>`, `${root}.hb.>`];
  return {
    controller: { publish: controllerApi(job), subscribe: [`${root}.hb.>`, deskSubject(job, "*", "*")] },
    policy: { publish: [...own("policy"), ...readApi(brokerStream(job, "groups"))], subscribe: probes },
    rollout: { publish: [...own("rollout"), `${root}.groups.${id}`], subscribe: probes },
    checkpoint: { publish: own("checkpoint"), subscribe: probes },
    node: { publish: own("node"), subscribe: probes },
    operator: {
      publish: [...reports("operator"), ...reading("operator"), `$JS.API.STREAM.MSG.GET.KV_${stateBucket(job)}`],
      subscribe: watch,
    },
    watcher: { publish: reading("watcher"), subscribe: watch },
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

/** Making and removing consumers of a stream, and reading through them. */
function consumerApi(job: string, name: StreamName): string[] {
  const stream = brokerStream(job, name);
  const names = `$JS.API.CONSUMER.NAMES.${stream}`;
  return [names, `$JS.API.CONSUMER.CREATE.${stream}.>`, `$JS.API.CONSUMER.DELETE.${stream}.*`, ...readerApi(job, name)];
}

/** Reading through a consumer that the desk made: its name is a secret of the reader, so a wildcard opens nobody else's. */
function readerApi(job: string, name: StreamName): string[] {
  const stream = brokerStream(job, name);
  return [`$JS.API.CONSUMER.INFO.${stream}.*`, pullSubject(stream), `$JS.ACK.${stream}.>`];
}

function pullSubject(stream: string): string {
  return `$JS.API.CONSUMER.MSG.NEXT.${stream}.*`;
}

/** True of a service with more than one answer to a request. */
export function answersOften(subject: string): boolean {
  return subject.startsWith("$JS.API.CONSUMER.MSG.NEXT.");
}
