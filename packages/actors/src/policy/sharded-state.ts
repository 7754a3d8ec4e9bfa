/** The training state of a trainer of several processes, each of which has a shard: rank 0 says what all do, and puts together what they answer. */
import { randomUUID } from "node:crypto";
import { invariant, withDeadline } from "@muster/base";
import type { GradientMesh, ReduceOptions, ShardWindow } from "@muster/collectives";
import type { PolicyEngine, RankCut } from "@muster/engine";
import {
  type Body,
  meshTimesOf,
  pullTimesOf,
  type Section,
  sectionsOfPart,
  type VersionPart,
  versionParts,
} from "@muster/protocol";
import { errors } from "../errors.ts";
import { Hearing, type Question } from "../shards/hearing.ts";
import { type RankDone, type RankTicket, readAnswer, writeRankTicket } from "../shards/rank-tickets.ts";
import type { RankTrainer } from "../shards/rank-trainer.ts";
import { checkCopies, type ListedSection, sectionOfShards, sizeOf } from "../shards/sharded-sections.ts";
import { PublishedTexts } from "./published-texts.ts";
import type { CheckpointSource } from "./read-checkpoint.ts";
import { type Published, placeIn, type StateTools, type TrainerState } from "./trainer-state.ts";

type PerformAll = NonNullable<PolicyEngine["performAll"]>;

const never = new AbortController().signal;

/** Each rank has its shard, rank 0 too. */
export class ShardedState implements TrainerState {
  readonly #tools: StateTools;
  /** Of this process. */
  readonly #own: RankTrainer;
  readonly #performAll: PerformAll;
  readonly #cut: RankCut;
  readonly #size: number;
  /** Size of the shard of the optimizer of each rank. */
  #optimizer: readonly number[] = [];
  #texts: PublishedTexts | null = null;
  /** Numbers what is taken: what was given up and comes late is not adopted. */
  #orders = 0;
  readonly #hearing: Hearing;

  private constructor(tools: StateTools, own: RankTrainer, cut: RankCut) {
    const { engine } = tools;
    if (!engine.performAll) throw errors.RankEngine({ kind: engine.info().kind });
    this.#performAll = engine.performAll.bind(engine);
    this.#tools = tools;
    this.#hearing = new Hearing(tools.environment.clock);
    this.#own = own;
    this.#cut = cut;
    this.#size = sizeOf(cut);
  }

  /** Opens the stores of all ranks. @throws what the port to version stores throws; MUSTER_ERR_RANK_ENGINE */
  static async open(tools: StateTools, own: RankTrainer, cut: RankCut): Promise<ShardedState> {
    const state = new ShardedState(tools, own, cut);
    const opened = await state.#all({ do: "open" });
    state.#optimizer = opened.map(({ sections }) => sections.find(({ name }) => name === "optimizer")?.bytes ?? 0);
    state.#texts = await PublishedTexts.open(tools, opened);
    return state;
  }

  async publish(
    { lineage, version }: { lineage: number; version: number },
    parts: readonly VersionPart[],
  ): Promise<Published> {
    const id = { lineage, version };
    const listed = await this.#listed(await this.#all({ do: "publish", ...id, parts: [...parts] }), parts);
    invariant(this.#texts, "open made them");
    return await this.#texts.publish(id, listed, parts);
  }

  async candidate(signal: AbortSignal): Promise<{ readonly sections: Section[] }> {
    const listed = await this.#listed(await this.#all({ do: "digest" }, signal), versionParts);
    return { sections: listed.map(({ section }) => section) };
  }

  async pull({ lineage, version, sections, holders }: Body<"weights.pull">, signal: AbortSignal): Promise<void> {
    const named = sections.map(({ table: _, ...section }) => section);
    const order = this.#orders++;
    const { answerMs } = pullTimesOf(this.#tools.config.timing.pullMs);
    const what = `taking the shards of version ${version}`;
    const ticket = { do: "pull", order, lineage, version, sections: named, holders } as const;
    await this.#ask(ticket, { what, timeoutMs: answerMs, signal });
    signal.throwIfAborted();
    await this.#all({ do: "adopt", order });
  }

  /**
   * Each rank reads its own shard, and the digests of all of them are those of the checkpoint. A checkpoint of another layout has the same bytes in another
   * order, and so others; only then it is read through, to tell that from damage.
   */
  async load({ path, manifestDigests }: CheckpointSource, signal: AbortSignal): Promise<void> {
    const manifests = manifestDigests ? [...manifestDigests] : null;
    const order = this.#orders++;
    const done = await this.#all({ do: "load", order, path, manifests, optimizer: [...this.#optimizer] }, signal);
    const written = done[0]?.written;
    const listed = await this.#listed(done, versionParts);
    for (const { name, digest } of listed.map(({ section }) => section)) {
      const before = written?.sections.find((section) => section.name === name)?.digest ?? "none";
      if (before === digest) continue;
      await this.#verify(path, signal);
      const reason = `its section ${name} has digest ${before}, and cut into shards ${digest}`;
      throw errors.CheckpointOfOtherShards({ name: written?.name ?? path, size: this.#size, reason });
    }
    await this.#all({ do: "adopt", order });
  }

  /** @throws what reading throws; MUSTER_ERR_CHECKPOINT_CORRUPT */
  async #verify(path: string, signal: AbortSignal): Promise<void> {
    const { ports, config, environment } = this.#tools;
    const patience = { what: `verifying ${path}`, timeoutMs: config.timing.checkpointMs, clock: environment.clock };
    await withDeadline((late) => ports.verifyCheckpoint(path, AbortSignal.any([late, signal])), patience);
  }

  async openMesh(body: Body<"mesh.build">, signal: AbortSignal): Promise<GradientMesh> {
    const { epoch, members } = body;
    const place = placeIn(body, this.#tools.identity);
    const named = members.map(({ id, ranks }) => ({ id, ranks }));
    const { answerMs } = meshTimesOf(this.#tools.config.timing.meshMs);
    const what = "meeting the processes of other trainers";
    await this.#ask({ do: "meet", epoch, place, members: named }, { what, timeoutMs: answerMs, signal });
    return new ShardedMesh({
      epoch,
      worldSize: members.length,
      rank: place,
      own: this.#own,
      all: (ticket, patience) => this.#all(ticket, patience),
    });
  }

  async close(): Promise<void> {
    await this.#own.close();
    await this.#texts?.close();
  }

  /** What every process answers in time, also when it fails. @throws what `Hearing` throws, and what they failed with */
  async #ask(ticket: RankTicket, { what, ...question }: Question): Promise<readonly RankDone[]> {
    const named = `${what} in the ${this.#size} processes of this trainer`;
    const order = randomUUID();
    const answers = await this.#hearing.of({ ...question, what: named }, (signal) =>
      this.#handOn(order, ticket, signal),
    );
    return this.#read(order, answers);
  }

  /** @param signal - Where what is asked for may be given up. */
  async #all(ticket: RankTicket, signal?: AbortSignal): Promise<readonly RankDone[]> {
    const order = randomUUID();
    return this.#read(order, await this.#handOn(order, ticket, signal));
  }

  async #handOn(order: string, ticket: RankTicket, signal?: AbortSignal): Promise<readonly string[]> {
    // Of what is given up already nobody would hear how it fails.
    signal?.throwIfAborted();
    const performed = this.#performAll(writeRankTicket({ order, ticket }), signal ?? never);
    return await (signal ? soon(performed, signal) : performed);
  }

  #read(order: string, answers: readonly string[]): readonly RankDone[] {
    if (answers.length !== this.#size)
      throw errors.RankAnswer({
        rank: answers.length,
        reason: `there are ${answers.length} answers of ${this.#size} ranks`,
      });
    const build = this.#tools.ports.engineBuild;
    return answers.map((answer, rank) => readAnswer(answer, { order, rank, build }));
  }

  /** The sections of some parts, each named by the shards of all ranks. */
  async #listed(done: readonly RankDone[], parts: readonly VersionPart[]): Promise<ListedSection[]> {
    const { ports, engine, table } = this.#tools;
    const whole = {
      weights: engine.info().weightsBytes,
      optimizer: this.#optimizer.reduce((sum, bytes) => sum + bytes, 0),
    };
    const named: ListedSection[] = [];
    for (const { name } of parts.flatMap((part) =>
      sectionsOfPart([{ name: "weights" }, { name: "optimizer" }] as const, part),
    )) {
      const shards = done.flatMap(({ sections }) => sections.filter((section) => section.name === name));
      if (name === "weights") checkCopies(this.#cut, shards);
      const { section, list } = await sectionOfShards(ports, { name, bytes: whole[name], shards }, never);
      named.push({ section: name === "weights" ? { ...section, table: table.named } : section, list });
    }
    return named;
  }
}

/** Waits no longer than it is wanted: other ranks may not hear of that. */
async function soon<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

interface MeshTools extends Pick<GradientMesh, "epoch" | "rank" | "worldSize"> {
  readonly own: RankTrainer;
  all(ticket: RankTicket, signal?: AbortSignal): Promise<unknown>;
}

/** The meshes of all ranks as one: each sums its part of the gradient with the same rank of the other trainers. */
class ShardedMesh implements GradientMesh {
  readonly epoch: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly #tools: MeshTools;
  readonly #mesh: GradientMesh;
  #isLeft = false;

  constructor(tools: MeshTools) {
    const { epoch, rank, worldSize, own } = tools;
    this.epoch = epoch;
    this.rank = rank;
    this.worldSize = worldSize;
    this.#tools = tools;
    this.#mesh = own.mesh;
  }

  shard(index: number, window?: ShardWindow): Float32Array {
    return this.#mesh.shard(index, window);
  }

  result(window?: ShardWindow): Float32Array {
    return this.#mesh.result(window);
  }

  async reduce({ op, written, window, signal }: ReduceOptions): Promise<Float32Array> {
    await this.#tools.all({ do: "reduce", op, written: [...written] }, signal);
    return this.#mesh.result(window);
  }

  abort(reason: string): void {
    this.#mesh.abort(reason);
    this.#leave(reason);
  }

  close(): void {
    this.#leave("closed");
  }

  /** Ranks that can not be told are gone, and with them the replica. */
  #leave(reason: string): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    this.#tools.all({ do: "leave", epoch: this.epoch, reason: reason.slice(0, 2_000) }).catch(() => {});
  }
}
