/** Inputs and effects of the controller. Every input is journaled; `atMs` is the acting controller's monotonic clock. */
import type { Body, KindOf, Role, StepSize } from "@muster/protocol";
import type { Verdict } from "../detector/verdict.ts";
import type { Fill } from "./step/step-state.ts";

/** Reports that are passed on, and decide nothing: no machine hears them. */
type PassedOn = "samples.drawn";

type ReportEvent = {
  [K in Exclude<KindOf<"report">, PassedOn>]: {
    readonly type: K;
    readonly atMs: number;
    readonly from: string;
    readonly role: Role;
    readonly incarnation: string;
    readonly body: Body<K>;
  };
}[Exclude<KindOf<"report">, PassedOn>];

/** What the failure detector found of one incarnation. */
export interface VerdictEvent extends Verdict {
  readonly atMs: number;
}

/** The rules by which a program folds a journal. */
export interface Rules {
  /** Of the modules that decide, in hexadecimal: another one may decide otherwise. */
  readonly digest: string;
  /** Version of the program, for people. */
  readonly build: string;
}

/** A controller begins its term: the first record of each term. */
export interface ElectedEvent {
  readonly type: "controller.elected";
  readonly atMs: number;
  readonly term: number;
  /** By which rules this term decides; nothing is decided by it. Absent in journals of programs that did not say it. */
  readonly rules?: Rules;
}

/** Time passed; journaled only when it changed something. */
export interface TickEvent {
  readonly type: "controller.tick";
  readonly atMs: number;
}

/** The groups stream has passed a mark, up or down, or took more above the last one; journaled because checkpoints and purges are decided by it. */
export interface FilledEvent extends Fill {
  readonly type: "controller.filled";
  readonly atMs: number;
}

/** A checkpoint as its manifest has it, found by a controller whose journal is lost, or was closed with the job. */
export interface FoundCheckpoint {
  readonly step: number;
  readonly version: number;
  readonly lineage: number;
  readonly path: string;
  readonly manifestDigest?: string;
  /** Host of the controller, which has verified it. */
  readonly host: string;
  readonly ledger: { readonly trained: number; readonly aborted: number; readonly quarantined: number };
  /** The job was over with it, and goes on with more steps: nothing is lost. */
  readonly isEnd?: boolean;
  /** Sizes of the steps before it, where the batch was changed. */
  readonly sizes?: readonly StepSize[];
}

/** The operator says that the broker's store is lost, or that a job that was over goes on: the first record of a new journal, which begins after a checkpoint (semantics 6.9). */
export interface RestoredEvent {
  readonly type: "controller.restored";
  readonly atMs: number;
  readonly checkpoint: FoundCheckpoint;
}

/** A report of a kind, as the controller sees it. */
export type ReportOf<K extends KindOf<"report">> = Extract<ReportEvent, { type: K }>;

/** Every input of the controller. */
export type ControllerEvent = ReportEvent | VerdictEvent | ElectedEvent | RestoredEvent | FilledEvent | TickEvent;

/** An order to one incarnation of one actor. */
export type CommandEffect = {
  [K in KindOf<"command">]: {
    readonly type: "command";
    readonly to: string;
    readonly incarnation: string;
    readonly kind: K;
    readonly body: Body<K>;
  };
}[KindOf<"command">];

/** A public fact. */
export type AnnounceEffect = {
  [K in KindOf<"event">]: { readonly type: "announce"; readonly kind: K; readonly body: Body<K> };
}[KindOf<"event">];

/**
 * A fact that was said before, for whoever asks for it again. It waits for no other fact, and no other waits for it; nobody tells it again after a
 * failover, since whoever still needs it asks again.
 */
export type AnswerEffect = {
  [K in KindOf<"event">]: { readonly type: "answer"; readonly kind: K; readonly body: Body<K> };
}[KindOf<"event">];

/** What the controller's host must do, in order. */
export type ControllerEffect =
  | CommandEffect
  | AnnounceEffect
  | AnswerEffect
  /** Send `replica.registered` with the configuration and the data-plane key, which never enter the journal. */
  | { readonly type: "admit"; readonly to: string; readonly incarnation: string }
  /** Groups below this sequence are covered by a checkpoint. */
  | { readonly type: "groups.purge"; readonly beforeSeq: number }
  | { readonly type: "controller.stop"; readonly outcome: "done" | "stopped" | "failed"; readonly reason: string };

/** Makes an order to a member. */
export function command<K extends KindOf<"command">>(
  to: { readonly id: string; readonly incarnation: string },
  kind: K,
  body: Body<K>,
): ControllerEffect {
  return { type: "command", to: to.id, incarnation: to.incarnation, kind, body } as CommandEffect;
}

/** Makes a public fact. */
export function announce<K extends KindOf<"event">>(kind: K, body: Body<K>): ControllerEffect {
  return { type: "announce", kind, body } as AnnounceEffect;
}

/** A change of state with what must be done about it. */
export interface Change<State> {
  readonly state: State;
  readonly effects: readonly ControllerEffect[];
}
