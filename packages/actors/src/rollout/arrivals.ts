/** How weight versions come to a rollout replica: to its host, by way of a store that serves them on, and from there to its ranks. */
import { randomUUID } from "node:crypto";
import { invariant, withDeadline } from "@muster/base";
import type { MappedVersion, VersionStore } from "@muster/collectives";
import type { RankCut, RolloutEngine, SectionSource, WeightUpdate } from "@muster/engine";
import { type Body, type JobConfig, pullTimesOf, sectionsOfPart } from "@muster/protocol";
import type { SectionConversion } from "@muster/tensors";
import type { Ports } from "../ports.ts";
import type { Admission, WorkTools } from "../replica/work.ts";
import { collectShards } from "../shards/collect-shards.ts";
import { Hearing } from "../shards/hearing.ts";
import { partBytesOf, sizeOf } from "../shards/sharded-sections.ts";
import { Receipts, ticketOf } from "../shards/tickets.ts";
import { Tables } from "../tables.ts";
import { deltaOf, engineVersionOf, mapSections, pullRanks } from "../weights.ts";
import { type ArrivalMeters, arrivalMetersOn } from "./arrival-meters.ts";

/** A version that is in the engine. */
export interface Arrived {
  readonly bytes: number;
  /** Where this replica serves it to others. */
  readonly addresses: readonly string[];
}

/** What a version is brought into. */
interface Receiver extends Admission {
  readonly engine: RolloutEngine;
}

/** Ends a pull; `life` ends what may not be broken off half-way, too. */
interface PullSignals {
  readonly signal: AbortSignal;
  readonly life: AbortSignal;
}

/** Brings versions into an engine. */
export class Arrivals {
  readonly #tools: WorkTools;
  readonly #ports: Ports;
  readonly #meters: ArrivalMeters;
  readonly #tables: Tables;
  readonly #hearing: Hearing;
  /** Serves to other hosts what came from another host; opened with the first pull, which says how large versions are. */
  #store: Promise<VersionStore | null> | null = null;

  /** The version of which every process has its part: ordered again, it is not taken again. */
  #ofRanks: { readonly version: number; readonly arrived: Arrived } | null = null;

  constructor(tools: WorkTools, ports: Ports) {
    this.#tools = tools;
    this.#ports = ports;
    this.#meters = arrivalMetersOn(tools.environment.metrics);
    this.#tables = new Tables(ports, tools.identity);
    this.#hearing = new Hearing(tools.environment.clock);
  }

  /** Pulls a version and hands it to the engine, which has it when this ends. @throws what pulls and engines throw. */
  async bring(body: Body<"weights.pull">, receiver: Receiver, signals: PullSignals): Promise<Arrived> {
    const { dataKey, config } = receiver;
    const { lineage, version } = body;
    const { job, id } = this.#tools.identity;
    const own = await this.#tables.described(config, "rollout");
    const asking = { dataKey, config, signal: signals.signal };
    const cut = this.#ports.rankCut(config);
    const isRanked = receiver.engine.info().ranks > 1;
    if (cut || isRanked) await this.#tables.check(body, own, asking);
    if (cut) return await this.#byRanks(body, receiver, { cut, signal: signals.signal });
    const conversion = await this.#tables.conversion(body, own, asking);
    const trainers = this.#ports.trainerCut(config);
    if (trainers) return await this.#collected(body, receiver, { cut: trainers, conversion, signal: signals.signal });
    const keepIn = await this.#storeFor(body, receiver);
    const puller = { map: this.#ports.map, keepIn, job, member: id, dataKey, config };
    const mapped = await mapSections(puller, body, signals.signal);
    this.#note(body, mapped);
    try {
      signals.signal.throwIfAborted();
      const near = mapped.via === "memory" ? [mapped.from] : [...(keepIn?.addresses ?? [])];
      const update = isRanked
        ? await this.#shardsOf({ ...body, holders: [{ id, addresses: near }, ...body.holders] }, receiver, signals)
        : await wholeOf(body, mapped, { deadlineMs: config.timing.pullMs, signal: signals.life, conversion });
      await receiver.engine.updateWeights(update);
    } finally {
      mapped.release();
    }
    const serves = keepIn?.holds({ lineage, version }) ?? false;
    return { bytes: mapped.bytes, addresses: serves ? [...(keepIn?.addresses ?? [])] : [] };
  }

  /** Frees the store; why it could not be opened was said by the pull. */
  async close(): Promise<void> {
    const store = await this.#store?.catch(() => null);
    await store?.close();
  }

  /** Has each process of the replica take its own part from whoever has it: nothing comes here that only others need. */
  async #byRanks(
    body: Body<"weights.pull">,
    { engine, config }: Receiver,
    { cut, signal }: { readonly cut: RankCut; readonly signal: AbortSignal },
  ): Promise<Arrived> {
    const version = engineVersionOf(body);
    if (this.#ofRanks?.version === version && engine.weightVersion() === version) return this.#ofRanks.arrived;
    const { clock, logger } = this.#tools.environment;
    const startedMs = clock.now();
    const order = randomUUID();
    const receipts = new Receipts({ ...body, order, build: this.#ports.engineBuild }, partBytesOf(cut));
    const arrived = (receipt: string): void => receipts.add(receipt);
    const { answerMs: timeoutMs } = pullTimesOf(config.timing.pullMs);
    const what = `taking the parts of version ${body.version} in the ${sizeOf(cut)} processes of this sampler`;
    const ticket = ticketOf({ ...body, order });
    const failed = await this.#hearing.of({ what, timeoutMs, signal }, (given) =>
      engine.updateWeights({ version, via: "ranks", ticket, arrived, signal: given }).then(
        () => null,
        (error: unknown) => {
          // What was given up says nothing of who has answered.
          given.throwIfAborted();
          return { error };
        },
      ),
    );
    if (failed) throw failed.error;
    const { bytes, wireBytes } = receipts.complete();
    this.#meters.arrived("parts", { bytes, wireBytes });
    const how = { way: "parts", bytes, wireBytes, durationMs: clock.now() - startedMs };
    logger.info({ lineage: body.lineage, version: body.version, ...how }, "weights arrived");
    this.#ofRanks = { version, arrived: { bytes, addresses: [] } };
    return this.#ofRanks.arrived;
  }

  /** Collects the weights from the shards of trainers, for an engine of one process. Nobody is served with them: no trainer voted on them as a whole. */
  async #collected(
    body: Body<"weights.pull">,
    { engine, dataKey, config }: Receiver,
    { cut, conversion, signal }: Converting & { readonly cut: RankCut; readonly signal: AbortSignal },
  ): Promise<Arrived> {
    const { clock, logger } = this.#tools.environment;
    const { job, id } = this.#tools.identity;
    const { pull, pullShards, pieceMax } = this.#ports;
    const startedMs = clock.now();
    const puller = { pull, pullShards, pieceMax, clock, job, member: id, dataKey, config };
    const serving = { ...body, sections: sectionsOfPart(body.sections, "serving") };
    const { sections, wireBytes } = await collectShards(puller, serving, { cut, signal });
    const { weights } = sections;
    invariant(weights, "an order of a sampler names the weights");
    signal.throwIfAborted();
    const { length: bytes, copyTo } = weights;
    await engine.updateWeights(await inlineOf(body, { bytes, copyTo, conversion }));
    const size = { bytes, wireBytes };
    this.#meters.arrived("parts", size);
    const how = { way: "parts", ...size, durationMs: clock.now() - startedMs };
    logger.info({ lineage: body.lineage, version: body.version, ...how }, "weights arrived");
    return { bytes, addresses: [] };
  }

  /** The parts of an engine's ranks: slices of the version where it lies on this host now. */
  async #shardsOf(
    body: Body<"weights.pull">,
    { engine, dataKey, config }: Receiver,
    { signal }: PullSignals,
  ): Promise<WeightUpdate> {
    const { job, id } = this.#tools.identity;
    const { clock } = this.#tools.environment;
    const puller = { pullShards: this.#ports.pullShards, clock, job, member: id, dataKey, config };
    const tensors = engine.rankTensors?.() ?? [];
    const shards = await pullRanks(puller, body, { ranks: engine.info().ranks, tensors, signal });
    signal.throwIfAborted();
    return { version: engineVersionOf(body), via: "shards", shards };
  }

  /** Says how a version came: on which way, and how many bytes a delta saved. */
  #note({ lineage, version }: Body<"weights.pull">, mapped: MappedVersion): void {
    const { via, bytes, wireBytes, from, base, durationMs } = mapped;
    const way = via === "memory" ? "memory" : base ? "delta" : "whole";
    this.#meters.arrived(way, { bytes, wireBytes });
    const how = { way, base: base?.version ?? null, bytes, wireBytes, from, durationMs };
    this.#tools.environment.logger.info({ lineage, version, ...how }, "weights arrived");
  }

  /** The store to receive into; none where hosts share no network, because on one host all read the memory of the first. */
  #storeFor({ sections }: Body<"weights.pull">, { dataKey, config }: Admission): Promise<VersionStore | null> {
    const { job, id } = this.#tools.identity;
    const { tcpHost, socketDirectory: socketDir, slots } = config.data;
    const delta = deltaOf(config);
    if (!tcpHost?.includes("/")) return Promise.resolve(null);
    const slotBytes = sections.reduce((sum, { bytes }) => sum + bytes + 64, 0);
    const options = { key: dataKey, job, member: id, socketDir, tcpHost, slotBytes, slots, delta };
    this.#store ??= this.#openStore(options, config);
    return this.#store;
  }

  /** Opens the store in bounded time: a pull that waited for it for ever would keep all later ones waiting, too. */
  async #openStore(options: Parameters<Ports["versionStore"]>[0], { timing }: JobConfig): Promise<VersionStore> {
    const opening = this.#ports.versionStore(options);
    const { clock } = this.#tools.environment;
    try {
      return await withDeadline(() => opening, { what: "opening the store", timeoutMs: timing.commandMs, clock });
    } catch (error) {
      this.#store = null; // the next pull tries again
      const late = (store: VersionStore): Promise<void> => store.close();
      void opening.then(late, () => {}); // why it failed is said by the pull
      throw error;
    }
  }
}

/** How weights of trainers become those of this sampler; `null` where they are that already. */
interface Converting {
  readonly conversion: SectionConversion | null;
}

/** A version for an engine of one rank. Once begun, its copy goes on to the end: half a version is none. */
async function wholeOf(
  body: Body<"weights.pull">,
  mapped: MappedVersion,
  { conversion, ...patience }: Converting & NonNullable<Parameters<MappedVersion["copyTo"]>[2]>,
): Promise<WeightUpdate> {
  const bytes = body.sections.find(({ name }) => name === "weights")?.bytes ?? 0;
  const copyTo = (into: Uint8Array, from?: number): Promise<void> =>
    mapped.copyTo("weights", into, from === undefined ? patience : { ...patience, from });
  return await inlineOf(body, { bytes, copyTo, conversion });
}

async function inlineOf(
  body: Body<"weights.pull">,
  { bytes, copyTo, conversion }: SectionSource & Converting,
): Promise<WeightUpdate> {
  const version = engineVersionOf(body);
  if (!conversion) return { version, via: "inline", bytes, copyTo };
  await conversion.check(copyTo);
  return {
    version,
    via: "inline",
    bytes: conversion.bytes,
    copyTo: (into, from) => conversion.copy(copyTo, into, from),
  };
}
