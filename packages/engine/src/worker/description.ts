/** What a worker says of itself, once every size and place in it was checked. */
import type { z } from "@muster/protocol";
import { TableCheck } from "@muster/tensors";
import { lossFeatures } from "../engine.ts";
import { errors } from "../errors.ts";
import type { EngineDescription, EngineRole } from "../registry/adapter.ts";
import { faultOf, helloSchema, refusalSchema, selfSchema, tensorsSchema, type WorkerRole } from "./messages.ts";

/** A worker of any kind by its own words. */
export interface WorkerSelf {
  readonly roles: readonly WorkerRole[];
  readonly build: string;
  readonly deterministic: boolean;
}

/** A worker that is an engine. */
export interface WorkerDescription extends WorkerSelf, Omit<EngineDescription, "tokenizer" | "transports"> {
  readonly weightsBytes: number;
  readonly optimizerBytes: number;
  readonly gradientElements: number;
  readonly fingerprint?: string | undefined;
  /** Roles in which it can be several processes. */
  readonly processes: readonly WorkerRole[];
}

/** Of a gradient mesh, which sees them through windows. */
const gradientElementsMax = 2 ** 40;

/** Most bytes of the weights or the optimizer: three figures of 64 bits for each of the most elements, and then some. */
const sectionBytesMax = 2 ** 45;

type Hello = z.infer<typeof helloSchema>;

/** True for a worker that trains or samples, which has a model. Pure. */
export function isEngine(worker: WorkerSelf): worker is WorkerDescription {
  return "tensors" in worker;
}

/** The roles of a worker that are those of an engine. Pure. */
export function engineRolesOf({ roles }: WorkerSelf): readonly EngineRole[] {
  return roles.filter((role): role is EngineRole => role === "policy" || role === "rollout");
}

/** Hears what a worker is: its hello, and the pages of its tensor table where the hello has none. */
export class HelloReader {
  #hello: Hello | null = null;
  readonly #table = new TableCheck();

  /**
   * Takes a message. @returns What the worker is, once it has said all of it.
   *
   * @throws MUSTER_ERR_WORKER_PROTOCOL naming what is wrong, MUSTER_ERR_WORKER_REFUSES with the worker's own reason
   */
  take(message: object): WorkerSelf | null {
    if (this.#hello) this.#addRows(pageIn(message));
    else {
      const self = selfIn(message);
      if (engineRolesOf(self).length === 0) return self;
      this.#hello = helloIn(message);
      this.#addRows(this.#hello.tensors ?? []);
    }
    const { tensorRows = this.#table.rows } = this.#hello;
    if (this.#table.rows < tensorRows) return null;
    if (this.#table.rows > tensorRows) refuseTable(`it has more rows than the ${tensorRows} that were announced`);
    return describedBy(this.#hello, this.#table);
  }

  #addRows(rows: NonNullable<Hello["tensors"]>): void {
    for (const row of rows) {
      const fault = this.#table.add(row);
      if (fault) refuseTable(fault);
    }
  }
}

/**
 * Checks all that a worker said of itself. Pure.
 *
 * @throws as {@link HelloReader.take}; for a table that is not whole
 */
export function describedIn(messages: readonly object[]): WorkerSelf {
  const reader = new HelloReader();
  for (const message of messages) {
    const described = reader.take(message);
    if (described) return described;
  }
  throw errors.WorkerProtocol({ reason: "its tensor table ends before all rows have come" });
}

function selfIn(message: object): WorkerSelf {
  const refusal = refusalSchema.safeParse(message).data;
  if (refusal) throw errors.WorkerRefuses({ reason: refusal.message });
  const { data, error } = selfSchema.safeParse(message);
  if (!data) throw errors.WorkerProtocol({ reason: `its hello is wrong in ${faultOf(error)}` });
  const { roles, build, deterministic } = data;
  return { roles, build, deterministic };
}

function helloIn(message: object): Hello {
  const { data: hello, error } = helloSchema.safeParse(message);
  if (!hello) throw errors.WorkerProtocol({ reason: `its hello is wrong in ${faultOf(error)}` });
  if ((hello.tensors === undefined) === (hello.tensorRows === undefined))
    throw errors.WorkerProtocol({ reason: "its hello must have one of tensors and tensorRows" });
  return hello;
}

function pageIn(message: object): NonNullable<Hello["tensors"]> {
  const { data: page, error } = tensorsSchema.safeParse(message);
  if (!page) throw errors.WorkerProtocol({ reason: `a page of its tensor table is wrong in ${faultOf(error)}` });
  return page.rows;
}

function refuseTable(fault: string): never {
  throw errors.WorkerProtocol({ reason: `its tensor table is wrong: ${fault}` });
}

function describedBy(
  { type: _, protocol: __, tensors: ___, tensorRows: ____, losses: said, ...rest }: Hello,
  table: TableCheck,
): WorkerDescription {
  const tensors = table.finish();
  if (typeof tensors === "string") return refuseTable(tensors);
  const weightsBytes = table.bytes;
  const elements = tensors.reduce((sum, { shape }) => sum + shape.reduce((all, size) => all * size, 1), 0);
  const { gradientElements = elements } = rest;
  if (gradientElements > gradientElementsMax)
    throw errors.WorkerProtocol({
      reason: `its gradient has ${gradientElements} elements, and at most ${gradientElementsMax} can be summed`,
    });
  const sections = { weights: weightsBytes, optimizer: rest.optimizerBytes };
  for (const [name, bytes] of Object.entries(sections))
    if (bytes > sectionBytesMax)
      throw errors.WorkerProtocol({
        reason: `its ${name} has ${bytes} bytes, and a section has at most ${sectionBytesMax}`,
      });
  const losses = lossFeatures.filter((loss) => said.includes(loss));
  return { ...rest, tensors, weightsBytes, gradientElements, losses };
}
