/** A checkpoint as trainers read it: the one that is meant, and no other that has taken its place. */
import type { CheckpointInfo, LoadedCheckpoint } from "@muster/checkpoint";
import { errors } from "../errors.ts";
import type { Ports } from "../ports.ts";
import { isOfShards } from "../shards/rank-texts.ts";

/** A checkpoint to load: the folder, and the manifests that it may have; any where they are absent. */
export interface CheckpointSource {
  readonly path: string;
  readonly manifestDigests?: readonly string[] | undefined;
}

interface ReadCheckpoint extends LoadedCheckpoint {
  /** The bytes of a section; none of one that it does not have. */
  bytesOf(section: string): Uint8Array;
}

/** @throws MUSTER_ERR_CHECKPOINT_REPLACED for another one than is meant. */
export function checkMeant({ manifestDigests }: CheckpointSource, { name, manifestDigest }: CheckpointInfo): void {
  if (!(manifestDigests?.includes(manifestDigest) ?? true)) throw errors.CheckpointReplaced({ name });
}

/** @throws MUSTER_ERR_CHECKPOINT_OF_OTHER_SHARDS: only the engine that wrote it knows what is in an optimizer of shards, and it has the size of any other. */
export function checkWhole({ name, sections }: CheckpointInfo): void {
  for (const { name: section, digest } of sections)
    if (isOfShards(digest))
      throw errors.CheckpointOfOtherShards({ name, size: 1, reason: `its section ${section} is in shards` });
}

/** @throws what reading throws; MUSTER_ERR_CHECKPOINT_REPLACED */
export async function readCheckpoint(
  ports: Pick<Ports, "loadCheckpoint">,
  source: CheckpointSource,
  signal: AbortSignal,
): Promise<ReadCheckpoint> {
  const checkpoint = await ports.loadCheckpoint(source.path, signal);
  checkMeant(source, checkpoint.info);
  const bytesOf = (section: string): Uint8Array =>
    checkpoint.sections.find((each) => each.name === section)?.bytes ?? new Uint8Array();
  return { ...checkpoint, bytesOf };
}
