/** Reads the picture that the controller draws of its job once a second. */
import { decodeStatus, type JobStatus, statusKey } from "@muster/protocol";
import type { Transport } from "@muster/transport";

/** Beyond this age the controller is not drawing any more: it draws once a second. */
export const pictureAgeMaxMs = 5_000;

/** The picture with its age at the time of reading. */
export type Picture = JobStatus & { readonly ageMs: number };

/** Reads the picture, `null` when no controller has drawn one yet. @throws MUSTER_ERR_STATUS_UNREADABLE */
export async function readPicture(transport: Transport): Promise<Picture | null> {
  const entry = await transport.state().get(statusKey);
  if (!entry) return null;
  const picture = decodeStatus(entry.value, transport.job);
  return { ...picture, ageMs: Math.max(0, Date.now() - picture.atMs) };
}
