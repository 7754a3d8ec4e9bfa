/** A job that begins a new journal because the one before is lost with the broker's store, or was closed when the job was over (semantics 6.9). */
import type { ChangedSettings, StepSize } from "@muster/protocol";
import { announce, type Change, type RestoredEvent } from "../events.ts";
import type { ControllerState } from "../state.ts";

/**
 * Goes on after the newest checkpoint, in a new lineage. What was sampled or trained since is lost with the store, and is sampled and trained
 * again; the ledger begins with what the checkpoint says. Pure.
 */
export function applyRestored(state: ControllerState, { checkpoint }: RestoredEvent): Change<ControllerState> {
  const { step, version, path, host, manifestDigest, sizes, isEnd = false } = checkpoint;
  const digest = manifestDigest === undefined ? {} : { manifestDigest };
  const digests = manifestDigest === undefined ? {} : { manifestDigests: [manifestDigest] };
  const { trained, aborted, quarantined } = checkpoint.ledger;
  const lineage = checkpoint.lineage + 1;
  const name = path.split("/").at(-1) ?? path;
  const why = isEnd ? "the job was over and goes on" : "the broker's store is lost: going on";
  const loss = isEnd ? "" : "; what was sampled and trained since is done again";
  const detail = `${why} from checkpoint ${name} after step ${step} in lineage ${lineage}${loss}`;
  return {
    state: {
      ...state,
      ...(sizes ? { changes: sizes.map(changeOf) } : {}),
      ledger: { admitted: trained + aborted + quarantined, trained, aborted, quarantined },
      step: { ...state.step, step: step + 1 },
      restore: { lineage, version, source: { kind: "checkpoint", path, ...digests } },
      checkpoints: { ...state.checkpoints, saved: { step, version, path, host, ...digest } },
    },
    effects: [announce("alarm.raised", { alarm: isEnd ? "prolonged" : "store-lost", detail })],
  };
}

function changeOf({ fromStep, groupsPerStep }: StepSize): ChangedSettings {
  return { fromStep, settings: { groupsPerStep } };
}
