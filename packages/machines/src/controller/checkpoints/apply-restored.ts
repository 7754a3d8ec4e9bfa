/** A job that begins a new journal because the one before is lost with the broker's store (semantics 6.9). */
import { announce, type Change, type RestoredEvent } from "../events.ts";
import type { ControllerState } from "../state.ts";

/**
 * Goes on after the newest checkpoint, in a new lineage. What was sampled or trained since is lost with the store, and is sampled and trained
 * again; the ledger begins with what the checkpoint says. Pure.
 */
export function applyRestored(state: ControllerState, { checkpoint }: RestoredEvent): Change<ControllerState> {
  const { step, version, path, host, manifestDigest } = checkpoint;
  const digest = manifestDigest === undefined ? {} : { manifestDigest };
  const digests = manifestDigest === undefined ? {} : { manifestDigests: [manifestDigest] };
  const { trained, aborted, quarantined } = checkpoint.ledger;
  const lineage = checkpoint.lineage + 1;
  const name = path.split("/").at(-1) ?? path;
  const detail = `the broker's store is lost: going on from checkpoint ${name} after step ${step} in lineage ${lineage}; what was sampled and trained since is done again`;
  return {
    state: {
      ...state,
      ledger: { admitted: trained + aborted + quarantined, trained, aborted, quarantined },
      step: { ...state.step, step: step + 1 },
      restore: { lineage, version, source: { kind: "checkpoint", path, ...digests } },
      checkpoints: { ...state.checkpoints, saved: { step, version, path, host, ...digest } },
    },
    effects: [announce("alarm.raised", { alarm: "store-lost", detail })],
  };
}
