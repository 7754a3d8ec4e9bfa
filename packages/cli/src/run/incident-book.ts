/** The incidents of one run: those that the events tell, the broker's, and when their causes happened where somebody made them happen. */

import type { EventMessage } from "@muster/client";
import {
  applyFact,
  disturbed,
  emptyIncidentLog,
  ettrOf,
  type Incident as Found,
  type IncidentFact,
  type IncidentLog,
} from "@muster/machines";
import type { Incident } from "../report/index.ts";

/** A fault that was done on purpose. */
export interface Injection {
  readonly atMs: number;
  /** Id of the process that was hit. */
  readonly id: string;
}

/** Incidents that are remembered; the oldest go. */
const othersMax = 2_048;

/** Collects the incidents of a run. Times count from its start. */
export class IncidentBook {
  #log: IncidentLog = emptyIncidentLog;
  readonly #others: Incident[] = [];

  take(message: EventMessage, atMs: number): void {
    this.#log = applyFact(this.#log, { kind: message.kind, body: message.body, atMs } as IncidentFact);
    if (message.kind === "step.committed") this.#recoverBroker(atMs);
    const other = otherOf(message, atMs);
    if (other) this.#add(other);
  }

  /** The broker ended and is started again; the job goes on with the next commit. */
  brokerEnded(detail: string, atMs: number): void {
    this.#lostBroker({ kind: "broker.died", at_ms: atMs, subject: "nats-server", detail });
  }

  /** The broker did not answer any more: it is frozen, or the network is cut. */
  brokerSilent(detail: string, atMs: number): void {
    this.#lostBroker({ kind: "broker.silent", at_ms: atMs, subject: "nats-server", detail });
  }

  /** A disk of the job was full. */
  diskFull(detail: string, atMs: number): void {
    this.#add({ kind: "disk.full", at_ms: atMs, subject: "disk", detail });
  }

  get ettr(): number | null {
    return ettrOf(this.#log);
  }

  get tokensWasted(): number {
    return this.#log.tokensWasted;
  }

  /** All incidents in order of time. */
  incidents(injections: readonly Injection[]): readonly Incident[] {
    const free = [...injections];
    const known = this.#log.incidents.map((found) => incidentOf(found, takeCause(free, found)));
    return [...known, ...this.#others].sort((a, b) => a.at_ms - b.at_ms);
  }

  #lostBroker(incident: Incident): void {
    this.#log = disturbed(this.#log);
    this.#add(incident);
  }

  #add(incident: Incident): void {
    this.#others.push(incident);
    if (this.#others.length > othersMax) this.#others.shift();
  }

  #recoverBroker(atMs: number): void {
    for (const [i, incident] of this.#others.entries())
      if (incident.kind.startsWith("broker.") && incident.recover_ms === undefined)
        this.#others[i] = { ...incident, recover_ms: atMs - incident.at_ms };
  }
}

function incidentOf(found: Found, cause: Injection | null): Incident {
  const { kind, target: subject, evidence: detail, detectedAtMs, recoveredAtMs, silentMs } = found;
  const at_ms = cause?.atMs ?? detectedAtMs;
  return {
    kind,
    at_ms,
    subject,
    detail,
    detect_ms: cause ? detectedAtMs - cause.atMs : silentMs,
    ...(recoveredAtMs === null ? {} : { recover_ms: recoveredAtMs - at_ms }),
  };
}

/** The last fault of the same process before an incident was noticed caused it; each causes one at most. */
function takeCause(free: Injection[], { target, detectedAtMs }: Found): Injection | null {
  const index = free.findLastIndex(({ id, atMs }) => id === target && atMs <= detectedAtMs);
  return index < 0 ? null : (free.splice(index, 1)[0] ?? null);
}

/** What an operator should know of besides, by kind of event. */
function otherOf({ kind, body }: EventMessage, at_ms: number): Incident | null {
  switch (kind) {
    case "step.skipped":
      return { kind, at_ms, subject: `step ${body.step}`, detail: body.reason };
    case "alarm.raised":
      return body.alarm === "rollback" ? null : { kind, at_ms, subject: body.alarm, detail: body.detail };
    case "groups.aborted":
      return { kind, at_ms, subject: body.holder, detail: `${body.count} × ${body.name}: ${body.message}` };
    default:
      return null;
  }
}
