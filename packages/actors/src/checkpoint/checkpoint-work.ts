/** The hands of a checkpoint actor: pulls a version like any receiver and writes it. */
import { basename } from "node:path";
import { messageOf } from "@muster/base";
import type { CheckpointStore } from "@muster/checkpoint";
import { hfConfigOf, tensorsOf } from "@muster/engine";
import { type CheckpointEffect, type CheckpointEvent, checkpointLogic, type TimerEffect } from "@muster/machines";
import type { HostTools } from "@muster/runtime";
import { type Doors, hostDoors } from "../doors.ts";
import { errors } from "../errors.ts";
import { meteredDoors } from "../metered-doors.ts";
import {
  type Admission,
  defineRole,
  mustEnd,
  type Role,
  type RoleHandlers,
  settle,
  type Work,
  type WorkTools,
} from "../replica/work.ts";
import { pullSections } from "../weights.ts";

type Effect = CheckpointEffect | TimerEffect<CheckpointEvent>;
type Tools = HostTools<CheckpointEvent>;
type WriteEffect = Extract<CheckpointEffect, { readonly type: "checkpoint.write" }>;

const phases = ["loading", "idle", "writing"] as const;

/** The role of checkpoint actors on given doors. */
export const checkpointRoleOn = (doors: Doors): Role =>
  defineRole({
    role: "checkpoint",
    build: "",
    phases,
    logic: checkpointLogic,
    input: { checkpointMs: 60_000 },
    create: (tools: WorkTools): Work<Effect, CheckpointEvent> => new CheckpointWork(tools, doors),
  });

/** The role of checkpoint actors on the disk of this host. */
export const checkpointRole: Role = checkpointRoleOn(hostDoors);

class CheckpointWork implements Work<Effect, CheckpointEvent> {
  readonly #tools: WorkTools;
  readonly #doors: Doors;
  #opened: (Admission & { readonly store: CheckpointStore }) | null = null;
  #abort = new AbortController();
  #writing: Promise<void> = Promise.resolve();
  /** Ends the hold on the checkpoints that the controller would restore. */
  #unpin = (): void => {};

  constructor(tools: WorkTools, doors: Doors) {
    this.#tools = tools;
    this.#doors = meteredDoors(doors, tools.environment);
  }

  readonly handlers: RoleHandlers<CheckpointEffect, CheckpointEvent> = {
    "checkpoint.write": (effect, tools) => {
      this.#writing = this.#write(effect, tools);
      return this.#writing;
    },
    "checkpoint.abort": ({ reason }, tools) => {
      this.#abort.abort(new Error(reason));
      this.#abort = new AbortController();
      return mustEnd("writing a checkpoint", this.#writing, tools.clock);
    },
  };

  async open(admission: Admission): Promise<void> {
    const { directory, keep } = admission.config.checkpoint;
    const now = (): Date => new Date(this.#tools.environment.wallMs());
    this.#opened = { ...admission, store: await this.#doors.checkpointStore({ root: directory, keep, now }) };
    this.#tools.beats.setPhase("idle");
  }

  async close(): Promise<void> {
    this.#abort.abort(new Error("closing"));
  }

  /** What the controller would restore stays until it knows of something newer: a report can be lost, and the newest may be damaged. */
  #pin(store: CheckpointStore, paths: readonly string[]): void {
    this.#unpin();
    const unpins = paths.map((path) => store.pin(basename(path)));
    this.#unpin = () => {
      for (const unpin of unpins) unpin();
    };
  }

  #write({ body }: WriteEffect, tools: Tools): Promise<void> {
    const signal = AbortSignal.any([this.#abort.signal, tools.signal]);
    const { step, lineage, version } = body;
    return settle<CheckpointEvent>(
      tools,
      async () => {
        if (!this.#opened) throw errors.ActorNotOpen({ what: "checkpoint.save" });
        const { store, dataKey, config } = this.#opened;
        const startedMs = tools.clock.now();
        this.#tools.beats.setPhase("writing");
        const { job, id } = this.#tools.identity;
        this.#pin(store, [...(body.pinned === undefined ? [] : [body.pinned]), ...(body.fallbacks ?? [])]);
        const { bytes } = await pullSections(
          { pull: this.#doors.pull, job, member: id, dataKey, config },
          body,
          signal,
        );
        const saved = await store.save(
          {
            job,
            lineage,
            step,
            version,
            term: this.#tools.term(),
            sections: body.sections.map(({ name, digest }) => ({
              name,
              digest,
              bytes: bytes[name] ?? new Uint8Array(),
            })),
            tensors: tensorsOf(config.model),
            modelConfig: hfConfigOf(config.model),
            ledger: body.ledger,
            groupsWatermark: body.groupsWatermark,
            engineBuild: this.#doors.engineBuild,
          },
          signal,
        );
        const { path, manifestDigest, bytes: size, warnings } = saved;
        for (const warning of warnings) tools.logger.warn({ step, warning }, "checkpoint is durable, with a warning");
        const durationMs = tools.clock.now() - startedMs;
        return { type: "checkpoint.written", step, lineage, version, path, manifestDigest, bytes: size, durationMs };
      },
      (error) => ({ type: "checkpoint.errored", step, lineage, cause: messageOf(error) }),
    ).finally(() => this.#tools.beats.setPhase("idle"));
  }
}
