/** Where the training state of a trainer is, and how it gets there and away: in the process that speaks for the replica, or in shards. */
import { withDeadline } from "@muster/base";
import type { GradientMesh, MeshPlace } from "@muster/collectives";
import { bytesIn, inlineState, type PolicyEngine, type SectionSource, type StateViews, sketchOf } from "@muster/engine";
import { type Body, meshTimesOf, type Section, type VersionPart } from "@muster/protocol";
import type { Environment } from "../environment.ts";
import type { PartStores } from "../part-stores.ts";
import type { Ports } from "../ports.ts";
import type { Admission, WorkTools } from "../replica/work.ts";
import type { OwnTable } from "../tables.ts";
import { mapParts, type WeightHolding } from "../weights.ts";
import { type CheckpointSource, checkWhole, readCheckpoint } from "./read-checkpoint.ts";
import { readLarge } from "./read-large.ts";
import { openTrainerStores } from "./trainer-stores.ts";

type VersionId = Pick<WeightHolding, "lineage" | "version">;
type Identity = WorkTools["identity"];

/** What was published, and where. */
export interface Published extends Pick<WeightHolding, "addresses" | "training" | "ranks"> {
  readonly sections: readonly Section[];
}

/** The training state of one trainer, wherever it is. */
export interface TrainerState {
  /** Publishes parts of the live state. */
  publish(id: VersionId, parts: readonly VersionPart[]): Promise<Published>;
  /** What was computed: what a vote says of it. */
  candidate(signal: AbortSignal): Promise<{ readonly sections: Section[]; readonly sketch?: number[] }>;
  /** Takes a version from others as the live state. */
  pull(wanted: Body<"weights.pull">, signal: AbortSignal): Promise<void>;
  /** Takes a checkpoint as the live state. */
  load(source: CheckpointSource, signal: AbortSignal): Promise<void>;
  openMesh(body: Body<"mesh.build">, signal: AbortSignal): Promise<GradientMesh>;
  close(): Promise<void>;
}

/** What the state of a trainer stands on. */
export interface StateTools extends Admission {
  readonly ports: Ports;
  readonly engine: PolicyEngine;
  readonly table: OwnTable;
  readonly environment: Pick<Environment, "clock" | "logger">;
  readonly identity: Identity;
}

/** Number of this replica among the members of a mesh. Pure. */
export function placeIn({ members }: Body<"mesh.build">, { id, incarnation }: Identity): number {
  return members.findIndex((member) => member.id === id && member.incarnation === incarnation);
}

/** All of the state is in this process. */
export class WholeState implements TrainerState {
  readonly #tools: StateTools;
  readonly #stores: PartStores;

  private constructor(tools: StateTools, stores: PartStores) {
    this.#tools = tools;
    this.#stores = stores;
  }

  /** Opens its stores. @throws what the port to version stores throws */
  static async open(tools: StateTools): Promise<WholeState> {
    const { ports, engine, table, config, dataKey, identity } = tools;
    const { weightsBytes, optimizerBytes } = engine.info();
    const stores = await openTrainerStores(ports, {
      ...{ job: identity.job, member: identity.id, dataKey, config },
      ...{ weightsBytes, optimizerBytes, textBytes: [table.text.length] },
    });
    return new WholeState(tools, stores);
  }

  async publish(id: VersionId, parts: readonly VersionPart[]): Promise<Published> {
    const { engine, table } = this.#tools;
    const { weights, optimizer } = engine.state();
    const sections = await this.#stores.publish(id, { state: { weights, optimizer }, table }, parts);
    return { sections, ...this.#stores.addressesOf(id) };
  }

  async candidate(signal: AbortSignal): Promise<{ readonly sections: Section[]; readonly sketch?: number[] }> {
    const { engine, ports, table, config } = this.#tools;
    const { weights, optimizer } = engine.candidate();
    const [ofWeights = "", ofOptimizer = ""] = await ports.digests([weights, optimizer], signal);
    const sections: Section[] = [
      { name: "weights", bytes: bytesIn(weights), digest: ofWeights, table: table.named },
      { name: "optimizer", bytes: bytesIn(optimizer), digest: ofOptimizer },
    ];
    const mayDrift = config.agreement !== undefined && config.agreement !== "state";
    return { sections, ...(mayDrift ? { sketch: sketchOf(weights, engine.info().tensors) } : {}) };
  }

  async pull(wanted: Body<"weights.pull">, signal: AbortSignal): Promise<void> {
    const { ports, engine, dataKey, config, identity } = this.#tools;
    const puller = { map: ports.map, keepIn: {}, job: identity.job, member: identity.id, dataKey, config };
    const mapped = await mapParts(puller, wanted, signal);
    try {
      const patience = { deadlineMs: config.timing.pullMs, signal };
      const source = (name: string): SectionSource => ({
        bytes: wanted.sections.find((section) => section.name === name)?.bytes ?? 0,
        copyTo: (into, from) => mapped.copyTo(name, into, from === undefined ? patience : { ...patience, from }),
      });
      await engine.restore({ weights: source("weights"), optimizer: source("optimizer") });
    } finally {
      mapped.release();
    }
  }

  async load(source: CheckpointSource): Promise<void> {
    const { engine, config, environment } = this.#tools;
    // A disk that does not answer holds up nobody else: another replica is asked.
    const patience = {
      what: `reading ${source.path}`,
      timeoutMs: config.timing.checkpointMs,
      clock: environment.clock,
    };
    await engine.restore(inlineState(await withDeadline((late) => this.#read(source, late), patience)));
  }

  async #read(source: CheckpointSource, signal: AbortSignal): Promise<StateViews> {
    const { ports, engine } = this.#tools;
    const { pieceMax } = ports;
    const { weightsBytes: weights, optimizerBytes: optimizer } = engine.info();
    if (Math.max(weights, optimizer) > pieceMax)
      return await readLarge(ports, source, { weights, optimizer, pieceMax }, signal);
    const { info, bytesOf } = await readCheckpoint(ports, source, signal);
    checkWhole(info);
    return { weights: bytesOf("weights"), optimizer: bytesOf("optimizer") };
  }

  async openMesh(body: Body<"mesh.build">, signal: AbortSignal): Promise<GradientMesh> {
    const { ports, engine, config, dataKey, identity } = this.#tools;
    return await ports.gradientMesh({
      key: dataKey,
      job: identity.job,
      epoch: body.epoch,
      rank: placeIn(body, identity),
      members: body.members.map((member) => member.id),
      ...placesOf(body.members),
      store: this.#stores.of("serving"),
      socketDir: config.data.socketDirectory,
      shards: config.batch.microShards,
      shardElements: engine.info().gradientElements,
      deadlineMs: meshTimesOf(config.timing.meshMs).formMs,
      signal,
    });
  }

  async close(): Promise<void> {
    await this.#stores.close();
  }
}

/** Where the members are, when that was said: they are on several hosts. */
function placesOf(members: Body<"mesh.build">["members"]): { readonly places?: readonly MeshPlace[] } {
  const places = members.flatMap(({ place }) => place ?? []);
  return places.length > 0 ? { places } : {};
}
