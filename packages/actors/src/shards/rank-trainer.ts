/** What one process of a trainer of several does with its shard of the training state: it publishes, pulls, loads and sums that, and nothing else. */
import { type Clock, type Logger, withDeadline } from "@muster/base";
import type { GradientMesh, MeshPlace } from "@muster/collectives";
import {
  bytesIn,
  type GradientMemory,
  gradientThrough,
  gradientWindowMax,
  inlineState,
  type RankCut,
  type RankState,
  type RankTraining,
  type ShardTensor,
  type StateSource,
  type StateViews,
} from "@muster/engine";
import { meshTimesOf, processNameOf, pullTimesOf } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { PartStores } from "../part-stores.ts";
import { openTrainerStores } from "../policy/trainer-stores.ts";
import type { Ports } from "../ports.ts";
import type { Puller } from "../weights.ts";
import { loadState } from "./load-state.ts";
import { mapShard } from "./map-shard.ts";
import { shardTensorsOf } from "./rank-shards.ts";
import { type NamedRanks, readRank, type TextReader } from "./rank-texts.ts";
import { type RankDone, type RankTicket, readRankTicket, writeAnswer } from "./rank-tickets.ts";
import { regionsOf, wholeBytesOf } from "./sharded-sections.ts";

type TicketOf<D extends RankTicket["do"]> = Extract<RankTicket, { readonly do: D }>;

/** Which process of which trainer, and what it stands on. */
export interface RankTrainerOptions extends Pick<Puller, "job" | "dataKey" | "config"> {
  readonly ports: Pick<
    Ports,
    "map" | "pull" | "digests" | "versionStore" | "gradientMesh" | "loadCheckpointParts" | "engineBuild" | "pieceMax"
  >;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly replica: string;
  readonly rank: number;
  readonly cut: RankCut;
}

/** A state beside the live one, until it is adopted or let go. */
interface StateInWaiting {
  readonly order: number;
  readonly source: StateSource;
  release(): void;
}

const sectionNames = ["weights", "optimizer"] as const;
const nothing: RankDone = { sections: [], addresses: [], training: [] };

/** One rank of a trainer. */
export class RankTrainer implements RankTraining {
  readonly bytes: number;
  readonly tensors: readonly ShardTensor[];
  readonly #options: RankTrainerOptions;
  readonly #member: string;
  #state: RankState | null = null;
  #stores: Promise<PartStores> | null = null;
  #mesh: GradientMesh | null = null;
  /** Aborts a mesh that is forming or summing. */
  #leave = new AbortController();
  /** What was pulled or loaded, beside the live state, until all ranks have theirs. */
  #taken: StateInWaiting | null = null;
  /** Ends what is being taken when another state is wanted: not every engine hands on that it was given up. */
  #taking = new AbortController();
  /** Of the mesh that forms or stands. */
  #epoch: number | null = null;

  constructor(options: RankTrainerOptions) {
    const { cut, rank, replica } = options;
    this.#options = options;
    this.#member = processNameOf(replica, rank);
    this.tensors = shardTensorsOf(cut, rank);
    const last = this.tensors.at(-1);
    this.bytes = last ? last.offsetBytes + last.sizeBytes : 0;
  }

  attach(state: RankState): void {
    this.#state = state;
  }

  async perform(text: string, signal: AbortSignal): Promise<string> {
    const { ports, rank } = this.#options;
    const from = { order: "", rank, build: ports.engineBuild };
    try {
      const { order, ticket } = readRankTicket(text);
      from.order = order;
      return writeAnswer(from, { done: await this.#do(ticket, signal) });
    } catch (failed) {
      return writeAnswer(from, { failed });
    }
  }

  gradient(shard: number, epoch: number): GradientMemory {
    const mesh = this.#meshNow();
    if (epoch !== this.#epoch) throw errors.ActorNotOpen({ what: `a gradient of epoch ${epoch}` });
    return gradientThrough(this.#attached().gradientElements, (window) => mesh.shard(shard, window));
  }

  sum(): GradientMemory {
    const mesh = this.#meshNow();
    return gradientThrough(this.#attached().gradientElements, (window) => mesh.result(window));
  }

  /** The part of the mesh that is in this process. @throws MUSTER_ERR_ACTOR_NOT_OPEN */
  #meshNow(): GradientMesh {
    if (!this.#mesh) throw errors.ActorNotOpen({ what: "a gradient" });
    return this.#mesh;
  }

  /** The mesh of this rank, for rank 0, which computes on it. */
  get mesh(): GradientMesh {
    return this.#meshNow();
  }

  async close(): Promise<void> {
    this.#part("closing");
    this.#takeInstead(AbortSignal.abort(new Error("closing")));
    const stores = await this.#stores?.catch(() => null);
    await stores?.close();
  }

  #attached(): RankState {
    if (!this.#state) throw errors.ActorNotOpen({ what: "attach() of the engine" });
    return this.#state;
  }

  async #do(ticket: RankTicket, signal: AbortSignal): Promise<RankDone> {
    switch (ticket.do) {
      case "open":
        return await this.#open();
      case "publish":
        return await this.#publish(ticket);
      case "digest":
        return { ...nothing, sections: await this.#digests(this.#attached().candidate(), signal) };
      case "pull":
        return await this.#pull(ticket, signal);
      case "load":
        return await this.#load(ticket, signal);
      case "adopt":
        return await this.#adopt(ticket);
      case "meet":
        return await this.#meet(ticket, signal);
      case "reduce":
        return await this.#reduce(ticket, signal);
      case "leave":
        if (ticket.epoch === this.#epoch) this.#leaveMesh(ticket.reason);
        return nothing;
    }
  }

  async #open(): Promise<RankDone> {
    const { optimizerBytes } = this.#attached();
    const stores = await this.#openStores();
    const [{ addresses }, { addresses: training }] = [stores.of("serving"), stores.of("training")];
    const sections = [
      { name: "weights", bytes: this.bytes, digest: "" },
      { name: "optimizer", bytes: optimizerBytes, digest: "" },
    ] as const;
    return { sections: [...sections], addresses: [...addresses], training: [...training] };
  }

  #openStores(): Promise<PartStores> {
    const { ports, config, dataKey, job } = this.#options;
    this.#stores ??= openTrainerStores(ports, {
      ...{ job, member: this.#member, dataKey, config },
      ...{ weightsBytes: this.bytes, optimizerBytes: this.#attached().optimizerBytes },
      textBytes: [],
    });
    return this.#stores;
  }

  async #publish({ lineage, version, parts }: TicketOf<"publish">): Promise<RankDone> {
    const id = { lineage, version };
    const { weights, optimizer } = this.#checked(this.#attached().state());
    const stores = await this.#openStores();
    const published = await stores.publish(id, { state: { weights, optimizer } }, parts);
    const { logger, rank } = this.#options;
    const sections = published.map(({ name, bytes, digest }) => ({ name, bytes, digest }));
    logger.info({ ...id, rank, parts, sections }, "shard published");
    return { sections, ...stores.addressesOf(id) };
  }

  /** The engine's word for what it has. @throws MUSTER_ERR_RANK_STATE */
  #checked<State extends StateViews>(state: State): State {
    const wanted = { weights: this.bytes, optimizer: this.#attached().optimizerBytes };
    for (const name of sectionNames) {
      const bytes = bytesIn(state[name]);
      if (bytes !== wanted[name])
        throw errors.RankState({ rank: this.#options.rank, name, bytes, wanted: wanted[name] });
    }
    return state;
  }

  async #digests(state: StateViews, signal: AbortSignal): Promise<RankDone["sections"]> {
    const { weights, optimizer } = this.#checked(state);
    const digests = await this.#options.ports.digests([weights, optimizer], signal);
    return sectionNames.map((name, i) => ({ name, bytes: bytesIn(state[name]), digest: digests[i] ?? "" }));
  }

  /** What was wanted before may come late, and must not take the place of what is wanted now. */
  #takeInstead(asked: AbortSignal): AbortSignal {
    this.#taking.abort(new Error("another state is wanted"));
    this.#taking = new AbortController();
    this.#taken?.release();
    this.#taken = null;
    return AbortSignal.any([asked, this.#taking.signal]);
  }

  /** Every rank takes what it had of the version: the same rank of another trainer has just that. It stays where it lies until it is adopted. */
  async #pull(ticket: TicketOf<"pull">, asking: AbortSignal): Promise<RankDone> {
    const signal = this.#takeInstead(asking);
    const { ports, rank, cut, config, clock } = this.#options;
    const puller = { ...this.#reader(), map: ports.map };
    const size = { weights: this.bytes, optimizer: this.#attached().optimizerBytes };
    const { partMs: timeoutMs } = pullTimesOf(config.timing.pullMs);
    const what = `taking the shard of version ${ticket.version}`;
    const take = async (late: AbortSignal): Promise<StateInWaiting> => {
      const given = AbortSignal.any([late, signal]);
      const { source, release } = await mapShard(puller, ticket, { rank, cut, size, signal: given });
      if (given.aborted) release();
      given.throwIfAborted();
      return { order: ticket.order, source, release };
    };
    this.#taken = await withDeadline(take, { what, timeoutMs, clock });
    return nothing;
  }

  /** What was taken becomes the live state, when all ranks have theirs. */
  async #adopt({ order }: TicketOf<"adopt">): Promise<RankDone> {
    const taken = this.#taken;
    if (taken?.order !== order) throw errors.ActorNotOpen({ what: `the state of order ${order}` });
    this.#taken = null;
    await this.#attached()
      .restore(taken.source)
      .finally(() => taken.release());
    return nothing;
  }

  async #load({ order, path, manifests, optimizer }: TicketOf<"load">, asking: AbortSignal): Promise<RankDone> {
    const signal = this.#takeInstead(asking);
    const { ports, rank, cut, config, clock } = this.#options;
    const { pieceMax } = ports;
    const load = (late: AbortSignal) =>
      loadState(
        ports,
        { path, manifestDigests: manifests ?? undefined },
        { plan: regionsOf(null, cut, rank), weightsBytes: wholeBytesOf(cut), optimizer, rank, pieceMax, signal: late },
      );
    const patience = { what: `reading ${path}`, timeoutMs: config.timing.checkpointMs, clock };
    const { state, written } = await withDeadline((late) => load(AbortSignal.any([late, signal])), patience);
    const sections = await this.#digests(state, signal);
    signal.throwIfAborted();
    this.#taken = { order, source: inlineState(state), release: () => {} };
    return { ...nothing, sections, written };
  }

  /** An epoch of the trainers is one for each rank. */
  async #meet({ epoch, place, members }: TicketOf<"meet">, signal: AbortSignal): Promise<RankDone> {
    const { ports, rank, job, dataKey, config } = this.#options;
    this.#part("a newer epoch");
    this.#epoch = epoch;
    const { signal: left } = this.#leave;
    const stores = await this.#openStores();
    const until = AbortSignal.any([signal, left]);
    const own = stores.of("serving").addresses;
    const addressesOf = members.map(({ ranks }, i) => (i === place ? own : this.#addressesIn(ranks, until)));
    const addresses = await Promise.all(addressesOf);
    const mesh = await ports.gradientMesh({
      key: dataKey,
      job,
      epoch,
      part: rank,
      rank: place,
      members: members.map(({ id }) => processNameOf(id, rank)),
      ...placesOf(addresses),
      store: stores.of("serving"),
      socketDir: config.data.socketDirectory,
      shards: config.batch.microShards,
      shardElements: this.#attached().gradientElements,
      deadlineMs: meshTimesOf(config.timing.meshMs).formMs,
      signal: until,
    });
    if (left.aborted) mesh.close();
    left.throwIfAborted();
    this.#mesh = mesh;
    return nothing;
  }

  /** Where this rank of a member serves; nowhere, where that is not named. */
  async #addressesIn(ranks: NamedRanks | undefined, signal: AbortSignal): Promise<readonly string[]> {
    if (!ranks) return [];
    return (await readRank(this.#reader(), { ...ranks, rank: this.#options.rank }, signal)).addresses;
  }

  #reader(): TextReader {
    const { ports, job, dataKey, config } = this.#options;
    return { pull: ports.pull, job, member: this.#member, dataKey, config };
  }

  async #reduce({ op, written }: TicketOf<"reduce">, signal: AbortSignal): Promise<RankDone> {
    const elements = Math.min(gradientWindowMax, this.#attached().gradientElements);
    const { collectiveMs: deadlineMs } = this.#options.config.timing;
    await this.#meshNow().reduce({ op, written, window: { from: 0, elements }, deadlineMs, signal });
    return nothing;
  }

  /** The engine may still write a gradient: its memory stays until the engine is told of another epoch. */
  #leaveMesh(reason: string): void {
    this.#leave.abort(new Error(reason));
    this.#leave = new AbortController();
    this.#mesh?.abort(reason);
  }

  #part(reason: string): void {
    this.#leaveMesh(reason);
    this.#mesh?.close();
    this.#mesh = null;
  }
}

/** Where the same rank of each trainer is, by the address at which other hosts reach it; none where they share one host. */
function placesOf(addresses: readonly (readonly string[])[]): { readonly places?: readonly MeshPlace[] } {
  const places = addresses.map((each) => {
    const [, host = ""] = each.find((one) => one.startsWith("tcp:"))?.match(/^tcp:(.*):\d+$/) ?? [];
    return { host, addresses: each };
  });
  return places.every(({ host }) => host !== "") ? { places } : {};
}
