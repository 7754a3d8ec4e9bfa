/** How a process of a replica takes its own part of a version, and no more than that. */
import type { Clock, Logger, SectionBytes } from "@muster/base";
import { type RankPlan, type ShardSource, shardsOf } from "@muster/collectives";
import { bytesIn, type RankCut, type RankShards, type ShardTensor } from "@muster/engine";
import { processNameOf, pullTimesOf, sectionsOfPart } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { Ports } from "../ports.ts";
import type { Puller } from "../weights.ts";
import { pullPieces } from "./pull-pieces.ts";
import type { TextReader } from "./rank-texts.ts";
import { layoutOf, regionsOf, shardSourcesOf } from "./sharded-sections.ts";
import { readTicket, type Ticket, writeReceipt } from "./tickets.ts";

/** Whose part it is, and with what it is taken. */
export interface RankShardsOptions extends Pick<Puller, "job" | "dataKey" | "config"> {
  readonly ports: Pick<Ports, "pull" | "pullShards" | "digests" | "engineBuild">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly replica: string;
  readonly rank: number;
  readonly cut: RankCut;
  /** How trainers cut the model, where each of their processes has a shard; `null` where one process publishes the whole. */
  readonly trainers: RankCut | null;
}

/** Where the piece of each tensor lies in the part of a rank. Pure. */
export function shardTensorsOf(cut: RankCut, rank: number): readonly ShardTensor[] {
  return shardsOf(cut.tensors, layoutOf(cut), rank).map(({ tensor, offset, bytes, ...part }) => ({
    ...{ name: tensor.name, ...part, offsetBytes: offset, sizeBytes: bytes },
  }));
}

/** Plans the part of one rank: the plan, and where each tensor lies in it. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
export function rankShards(options: RankShardsOptions): RankShards {
  const { ports, clock, logger, replica, rank, cut, trainers, job, dataKey, config } = options;
  const plan = regionsOf(trainers, cut, rank);
  const { pull, pullShards } = ports;
  const puller = { pull, pullShards, clock, job, member: processNameOf(replica, rank), dataKey, config };
  return {
    bytes: plan.sectionBytes,
    tensors: shardTensorsOf(cut, rank),
    pull: async (text, into, signal) => {
      const startedMs = clock.now();
      const ticket = readTicket(text);
      const { order, lineage, version } = ticket;
      const sources = await sourcesOf(ticket, { puller, trainers, signal });
      checkSize(plan, into);
      const endMs = startedMs + pullTimesOf(config.timing.pullMs).partMs;
      const given = { id: { lineage, version }, plan, sources, room: into, endMs, signal };
      const { bytes, wireBytes } = await pullPieces(puller, given);
      const [digest = ""] = await ports.digests([into], signal);
      const durationMs = clock.now() - startedMs;
      logger.info({ lineage, version, rank, bytes, wireBytes, digest, durationMs }, "shard arrived");
      const what = { order, build: ports.engineBuild, lineage, version, rank };
      return writeReceipt({ ...what, bytes: plan.sectionBytes, wireBytes, digest });
    },
  };
}

/** Who has what of the weights: each rank of the trainers its shard, or each holder all. */
async function sourcesOf(
  { lineage, version, sections, holders }: Ticket,
  {
    puller,
    trainers,
    signal,
  }: Pick<RankShardsOptions, "trainers"> & { readonly puller: TextReader; signal: AbortSignal },
): Promise<readonly ShardSource[]> {
  const serving = sectionsOfPart(sections, "serving");
  if (!trainers) {
    const addresses = holders.flatMap((holder) => holder.addresses);
    return serving.map((section) => ({ holders: addresses, section }));
  }
  const [section] = serving;
  return section ? await shardSourcesOf(puller, { lineage, version, section, holders }, { cut: trainers, signal }) : [];
}

/** @throws MUSTER_ERR_SHARD_ROOM */
function checkSize({ rank, sectionBytes }: RankPlan, into: SectionBytes): void {
  const bytes = bytesIn(into);
  if (bytes !== sectionBytes) throw errors.ShardRoom({ rank, bytes, wanted: sectionBytes });
}
