/** Reads the picture that the controller draws of its job once a second. */
import { type JobStatus, statusKey } from "@muster/actors";
import { messageOf } from "@muster/base";
import { unpack } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { z } from "zod";
import { errors } from "../errors.ts";

const count = z.number();
const maybe = count.nullable();

const memberSchema = z.object({
  id: z.string(),
  role: z.string(),
  ranks: count,
  incarnation: z.string(),
  health: z.string(),
  host: z.string(),
  pid: count,
  version: maybe,
  order: z.string().nullable(),
  phase: z.string().nullable(),
  beatAgeMs: maybe,
  loopLagMs: maybe,
  rssBytes: maybe,
});

const totals = z.record(z.string(), z.record(z.string(), count)).default({});
const roleCounts = z.object({ policy: count, rollout: count, checkpoint: count });
const roleRoom = z.object({ policy: maybe, rollout: maybe, checkpoint: maybe });

const fleetSchema = z.object({
  wanted: roleCounts,
  nodes: z.array(
    z.object({
      id: z.string(),
      host: z.string(),
      cordoned: z.boolean(),
      signs: z.array(z.string()).default([]),
      replicas: count,
      capacity: roleRoom,
    }),
  ),
  replicas: z.array(
    z.object({
      id: z.string(),
      role: z.string(),
      node: z.string().nullable(),
      health: z.string(),
      life: count,
      deaths: count,
      cordoned: z.boolean(),
    }),
  ),
  totals,
  leftOut: z.object({ nodes: count, replicas: count }).default({ nodes: 0, replicas: 0 }),
  missing: z.array(z.string()),
  commands: z.array(z.object({ id: z.string(), kind: z.string(), asked: z.string() })),
});

/** Keys that a newer controller adds are dropped, so an older command still reads the rest. */
const pictureSchema = z.object({
  job: z.string(),
  atMs: count,
  term: count,
  controller: z.object({ host: z.string(), pid: count }),
  phase: z.string(),
  step: count,
  steps: count,
  attempt: count,
  epoch: count,
  mesh: z.array(z.string()),
  lineage: count,
  version: maybe,
  sections: z.array(z.object({ name: z.enum(["weights", "optimizer"]), bytes: count, digest: z.string() })),
  leases: count,
  dropped: z.object({ duplicate: count, stale: count }),
  ledger: z.object({ admitted: count, trained: count, aborted: count, quarantined: count, pending: count }),
  causes: z.array(
    z.object({
      name: z.string(),
      message: z.string(),
      frame: z.string().nullable(),
      count,
      sample: z.string().nullable(),
    }),
  ),
  incidents: z.object({ counts: z.record(z.string(), count), open: count, tokensWasted: count, ettr: maybe }),
  checkpoint: z.object({ step: count, path: z.string() }).nullable(),
  members: z.array(memberSchema),
  totals,
  membersLeftOut: count.default(0),
  fleet: fleetSchema,
  streams: z.record(z.string(), z.object({ bytes: count, bytesMax: maybe })).default({}),
}) satisfies z.ZodType<JobStatus>;

/** Beyond this age the controller is not drawing any more: it draws once a second. */
export const pictureAgeMaxMs = 5_000;

/** The picture with its age at the time of reading. */
export type Picture = JobStatus & { readonly ageMs: number };

/** Reads the picture, `null` when no controller has drawn one yet. @throws MUSTER_ERR_PICTURE_UNREADABLE */
export async function readPicture(transport: Transport): Promise<Picture | null> {
  const entry = await transport.state().get(statusKey);
  if (!entry) return null;
  try {
    const picture = pictureSchema.parse(unpack(entry.value));
    return { ...picture, ageMs: Math.max(0, Date.now() - picture.atMs) };
  } catch (error) {
    throw errors.PictureUnreadable({ job: transport.job, reason: messageOf(error) }, error);
  }
}
