/**
 * What the broker lets each role say and hear, from which its accounts and their permissions are made. Everything not listed here
 * is refused by the server, whatever a process tries.
 */
import { kindsSaidBy, perRole, type Role, roles, traitsOf } from "@muster/protocol";
import { inboxPrefixOf } from "../nats/credentials.ts";
import {
  brokerStream,
  deskSubject,
  readersSubject,
  type StreamName,
  stateBucket,
  stateStream,
  streamNames,
} from "../streams.ts";

/** The users of a job's broker. `watcher` only looks; a `script` arrives at barriers in the name of its id, as an operator would, and hears how they end. */
export const brokerRoles = [...roles, "watcher", "script"] as const;

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
  if (role === "script") return [];
  return role === "operator" || role === "watcher" ? ["events"] : ["commands"];
}

/** A place in the account that owns the streams: a `service` takes the messages of others, of a `stream` others hear the messages. */
export interface Import {
  readonly kind: "service" | "stream";
  readonly subject: string;
  /** What it is called in the account that gets it, where that is something else. */
  readonly local?: string;
}

/** What a role other than the controller gets from the account that owns the streams. */
export function importsOf(job: string, role: BrokerRole): readonly Import[] {
  const { publish, subscribe } = rulesOf(job, "*")[role];
  const services = [...new Set([apiInfo, ...publish])].map((subject) => serviceOf(job, role, subject));
  const heard = isProgram(role) ? [...subscribe, `${inboxPrefixOf(role, ">")}`] : subscribe;
  return [...services, ...heard.map((subject): Import => ({ kind: "stream", subject }))];
}

/** The roles that any program may have, with a client library that knows nothing of us. */
function isProgram(role: BrokerRole): boolean {
  return role === "operator" || role === "watcher";
}

/** Streams that programs of a role read with whatever client library they have. */
export function programStreams(job: string, role: BrokerRole): readonly string[] {
  return isProgram(role) ? [brokerStream(job, "events"), stateStream(job)] : [];
}

/** Events that may answer who arrives at a barrier. */
export const barrierAnswers = ["barrier.ended", "barrier.refused", "message.refused"] as const;

const consumerApiPrefix = "$JS.API.CONSUMER.";

/** Making and removing consumers goes to the desk under the name that client libraries know: the broker would take their word for where one delivers to. */
function serviceOf(job: string, role: BrokerRole, subject: string): Import {
  const isMade = ["CREATE.", "DELETE."].some((verb) => subject.startsWith(consumerApiPrefix + verb));
  if (!isMade) return { kind: "service", subject };
  const desk = `${readersSubject(job, role)}.${subject.slice(consumerApiPrefix.length)}`;
  return { kind: "service", subject: desk, local: subject };
}

/** Who imports it gets the broker's whole API from nowhere else; without it the server answers some of it for the empty account of the role. */
const apiInfo = "$JS.API.INFO";

function rulesOf(job: string, id: string): Readonly<Record<BrokerRole, Permissions>> {
  const root = `muster.${job}`;
  const reading = (role: BrokerRole): string[] => [
    deskSubject(job, role, id),
    ...streamsReadBy(role).flatMap((name) => readerApi(brokerStream(job, name))),
  ];
  // One by one, since the stream bounds what waits on each of them.
  const reports = (role: Role): string[] =>
    kindsSaidBy(role, "report").map((kind) => `${root}.reports.${role}.${id}.${kind}`);
  const own = (role: Exclude<BrokerRole, "watcher" | "script">): string[] => [
    `${root}.hb.${role}.${id}`,
    ...reports(role),
    ...reading(role),
  ];
  const program = (role: BrokerRole): string[] => [apiInfo, ...programStreams(job, role).flatMap(programApi)];
  const probes = [`${root}.probe.*`];
  const watch = [`${root}.events.>`, `${root}.hb.>`];
  return {
    controller: {
      publish: controllerApi(job),
      subscribe: [`${root}.hb.>`, deskSubject(job, "*", "*"), `${readersSubject(job, "*")}.>`],
    },
    ...perRole((role) => {
      const { readsGroups, drawsGroups } = traitsOf(role);
      const reading = readsGroups ? readApi(brokerStream(job, "groups")) : [];
      const drawing = drawsGroups ? [`${root}.groups.${id}`] : [];
      return { publish: [...own(role), ...reading, ...drawing], subscribe: probes };
    }),
    node: { publish: own("node"), subscribe: probes },
    operator: {
      publish: [...reports("operator"), deskSubject(job, "operator", id), ...program("operator")],
      subscribe: watch,
    },
    watcher: { publish: [deskSubject(job, "watcher", id), ...program("watcher")], subscribe: watch },
    script: {
      publish: [`${root}.reports.operator.${id}.barrier.arrived`],
      subscribe: barrierAnswers.map((kind) => `${root}.events.${kind}`),
    },
  };
}

/** The controller owns the streams of its job, but can not delete or reshape one. */
function controllerApi(job: string): string[] {
  const root = `muster.${job}`;
  const bucket = stateBucket(job);
  const streams = streamNames.flatMap((name) => {
    const stream = brokerStream(job, name);
    return [...createApi(stream), ...readApi(stream), `$JS.API.STREAM.PURGE.${stream}`, ...consumerApi(stream)];
  });
  return [
    `${root}.hb.controller.>`,
    `${root}.probe.>`,
    `${root}.commands.>`,
    `${root}.journal`,
    `${root}.events.>`,
    `$KV.${bucket}.>`,
    ...createApi(stateStream(job)),
    ...readApi(stateStream(job)),
    ...consumerApi(stateStream(job)),
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
function consumerApi(stream: string): string[] {
  return [
    `$JS.API.CONSUMER.NAMES.${stream}`,
    ...[`$JS.API.CONSUMER.CREATE.${stream}`, `$JS.API.CONSUMER.CREATE.${stream}.>`],
    ...[`$JS.API.CONSUMER.DELETE.${stream}.*`, ...readerApi(stream)],
  ];
}

/** Reading through a consumer that the desk made: its name is a secret of the reader, so a wildcard opens nobody else's. */
function readerApi(stream: string): string[] {
  return [`$JS.API.CONSUMER.INFO.${stream}.*`, pullSubject(stream), `$JS.ACK.${stream}.>`];
}

/** What client libraries ask of a stream that they read. */
function programApi(stream: string): string[] {
  return [
    ...[`$JS.API.STREAM.INFO.${stream}`, `$JS.API.STREAM.MSG.GET.${stream}`, `$JS.FC.${stream}.>`],
    ...[`$JS.API.CONSUMER.CREATE.${stream}`, `$JS.API.CONSUMER.CREATE.${stream}.>`],
    ...[`$JS.API.CONSUMER.DELETE.${stream}.*`, ...readerApi(stream)],
  ];
}

function pullSubject(stream: string): string {
  return `$JS.API.CONSUMER.MSG.NEXT.${stream}.*`;
}

/** True of a service with more than one answer to a request. */
export function answersOften(subject: string): boolean {
  return subject.startsWith("$JS.API.CONSUMER.MSG.NEXT.");
}
