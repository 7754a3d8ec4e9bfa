/** What is in a checkpoint root. */
import { hasCode, messageOf } from "@muster/base";
import { errors } from "./errors.ts";
import { parseName } from "./names.ts";
import { type CheckpointInfo, inspectFolder, verifyFolder } from "./read.ts";
import { newestFirst } from "./retention.ts";
import { signatureOf } from "./signature.ts";
import type { Place } from "./write.ts";

/** A root, and what is remembered of it. */
export interface Listing {
  readonly place: Place;
  /** By folder name: what was last found whole, good as long as the signature is. */
  readonly hashed: Map<string, { readonly signature: string; readonly info: CheckpointInfo }>;
}

/** Complete and verified checkpoints, newest first. */
export async function listVerified(state: Listing, signal?: AbortSignal): Promise<readonly CheckpointInfo[]> {
  return listBy(state, (name) => inspect(state, name, signal));
}

/** What the manifests say that is there, newest first: no byte of weights is read, so files may be damaged. */
export async function listClaimed(state: Listing): Promise<readonly CheckpointInfo[]> {
  return listBy(state, (name) => orInvisible(inspectFolder({ ...state.place, name })));
}

type Look = (name: string) => Promise<CheckpointInfo | null>;

async function listBy(state: Listing, look: Look): Promise<readonly CheckpointInfo[]> {
  const { fs, root } = state.place;
  const names = (await orReadFailed(root, fs.list(root))).filter((name) => parseName(name) !== null);
  for (const name of state.hashed.keys()) if (!names.includes(name)) state.hashed.delete(name);
  const infos: CheckpointInfo[] = [];
  for (const name of names) {
    const info = await look(name);
    if (info) infos.push(info);
  }
  return infos.sort(newestFirst);
}

/** Verifies one folder, from memory when nothing changed. @returns `null` when it is damaged or gone. */
async function inspect({ place, hashed }: Listing, name: string, signal?: AbortSignal): Promise<CheckpointInfo | null> {
  const known = hashed.get(name);
  const signature = await orReadFailed(name, signatureOf(place, name, known?.info));
  if (known?.signature === signature) return known.info;
  const info = await orInvisible(verifyFolder({ ...place, name }, signal));
  if (info) {
    const isLonger = info.format === 3 && known === undefined;
    hashed.set(name, {
      signature: isLonger ? await orReadFailed(name, signatureOf(place, name, info)) : signature,
      info,
    });
  }
  return info;
}

function orInvisible(look: Promise<CheckpointInfo>): Promise<CheckpointInfo | null> {
  return look.catch((error: unknown) => {
    const isInvisible = ["CORRUPT", "MISSING"].some((word) => hasCode(error, `MUSTER_ERR_CHECKPOINT_${word}`));
    // Whatever else fails says nothing about the checkpoint; to hide it would restore an older one without need.
    if (!isInvisible) throw error;
    return null;
  });
}

/** Has what fails say that a checkpoint could not be read. */
export async function orReadFailed<T>(name: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw errors.CheckpointReadFailed({ name, reason: messageOf(error) }, error);
  }
}
