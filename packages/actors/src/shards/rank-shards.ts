/** How a process of a replica takes its own part of a version, and no more than that. */
import { type Clock, invariant, type Logger } from "@muster/base";
import { planReshard, type RankPlan, shardsOf } from "@muster/collectives";
import type { RankCut, RankShards } from "@muster/engine";
import { processNameOf, sectionsOfPart } from "@muster/protocol";
import type { Doors } from "../doors.ts";
import { type Puller, pullOf } from "../weights.ts";
import { readTicket, writeReceipt } from "./tickets.ts";

/** Policy replicas publish the tensors of the whole model one behind the other. */
const published = { tp: 1, pp: 1, dp: 1, align: 1 };

/** Whose part it is, and with what it is taken. */
export interface RankShardsOptions extends Pick<Puller, "job" | "dataKey" | "config"> {
  readonly doors: Pick<Doors, "pullShards" | "digests" | "engineBuild">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly replica: string;
  readonly rank: number;
  readonly cut: RankCut;
}

const layoutOf = ({ tp, pp }: RankCut) => ({ tp, pp, dp: 1 });

/** Size of the part of each rank. Pure. */
export function partBytesOf(cut: RankCut): readonly number[] {
  const layout = layoutOf(cut);
  return Array.from({ length: cut.tp * cut.pp }, (_, rank) => {
    const last = shardsOf(cut.tensors, layout, rank).at(-1);
    return last ? last.offset + last.bytes : 0;
  });
}

/** Plans the part of one rank: the plan, and where each tensor lies in it. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
export function rankShards(options: RankShardsOptions): RankShards {
  const { doors, clock, logger, replica, rank, cut, job, dataKey, config } = options;
  const layout = layoutOf(cut);
  const plan = planReshard(cut.tensors, published, layout)[rank];
  invariant(plan, "a rank is one of its layout");
  const puller = { job, member: processNameOf(replica, rank), dataKey, config };
  return {
    bytes: plan.sectionBytes,
    tensors: shardsOf(cut.tensors, layout, rank).map(({ tensor, start, length, offset, bytes }) => ({
      ...{ name: tensor.name, start, length, offsetBytes: offset, sizeBytes: bytes },
    })),
    pull: async (text, into, signal) => {
      const startedMs = clock.now();
      const ticket = readTicket(text);
      const { order, lineage, version } = ticket;
      const { bytes, wireBytes } = await pullPart({ puller, plan, doors }, ticket, { into, signal });
      const [digest = ""] = await doors.digests([into], signal);
      const durationMs = clock.now() - startedMs;
      logger.info({ lineage, version, rank, bytes, wireBytes, digest, durationMs }, "shard arrived");
      const what = { order, build: doors.engineBuild, lineage, version, rank };
      return writeReceipt({ ...what, bytes: into.byteLength, wireBytes, digest });
    },
  };
}

async function pullPart(
  { puller, plan, doors }: { puller: Puller; plan: RankPlan; doors: Pick<Doors, "pullShards"> },
  ticket: ReturnType<typeof readTicket>,
  { into, signal }: { into: Uint8Array; signal: AbortSignal },
) {
  const { sections: _, ...asked } = pullOf(puller, ticket);
  const sources = sectionsOfPart(ticket.sections, "serving").map((section) => ({ holders: asked.holders, section }));
  return await doors.pullShards({ ...asked, plan, sources, into, signal });
}
