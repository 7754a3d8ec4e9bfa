/** What replicas hear and what they ask of their hosts, whatever their role. */
import type { Body, JobConfig, KindOf } from "@muster/protocol";

/** An order of the controller, as a replica's machine sees it. */
export type CommandEvent<K extends KindOf<"command"> = KindOf<"command">> = {
  [Name in K]: { readonly type: Name; readonly body: Body<Name> };
}[K];

/** The controller admitted this replica; the configuration that the message carries, parsed and checked. */
export interface RegisteredEvent {
  readonly type: "replica.registered";
  readonly body: Body<"replica.registered">;
  readonly config: JobConfig;
}

/** The process was asked to end, by a signal or because its supervisor is gone. */
export interface StoppingEvent {
  readonly type: "process.stopping";
  readonly reason: string;
}

/** A fact for the controller. */
export type ReportEffect = {
  [K in KindOf<"report">]: {
    readonly type: "report";
    readonly kind: K;
    readonly body: Body<K>;
    /** What the machine hears in `report.told` once the broker has the report; without it, nothing. */
    readonly told?: string;
  };
}[KindOf<"report">];

/** The broker has a report whose machine asked to hear of that: it does not get lost with this process any more. */
export interface ToldEvent {
  readonly type: "report.told";
  readonly id: string;
}

/** Input that came too late for this epoch, version or attempt: dropped and counted. */
export interface DropEffect {
  readonly type: "drop";
  readonly kind: string;
  readonly reason: string;
}

/** Makes a fact for the controller; with `told`, the machine hears when the broker has it. */
export function report<K extends KindOf<"report">>(kind: K, body: Body<K>, told?: string): ReportEffect {
  return { type: "report", kind, body, ...(told === undefined ? {} : { told }) } as ReportEffect;
}
