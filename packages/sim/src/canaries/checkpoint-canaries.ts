/** Bugs of the controller's logic about checkpoints: when one counts, what may go then, and what it says of the groups stream. */
import type { ControllerEffect, ControllerState } from "@muster/machines/controller";
import type { Scenario } from "../cluster/scenario.ts";
import type { Canary } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";

/** Three checkpoint actors, each on a host of its own, that write whole checkpoints. */
function withThreeSavers(scenario: Scenario): Scenario {
  const { config } = scenario;
  const { shards: _, ...checkpoint } = config.checkpoint;
  return { ...scenario, config: { ...config, replicas: { ...config.replicas, checkpoint: 3 }, checkpoint } };
}

/** An order to save that says something else of the groups stream. */
function withWatermark(effect: ControllerEffect, change: (watermark: number) => number): ControllerEffect {
  if (effect.type !== "command" || effect.kind !== "checkpoint.save") return effect;
  return { ...effect, body: { ...effect.body, groupsWatermark: change(effect.body.groupsWatermark) } };
}

/** An order to save that names the checkpoint that counts as one that may go. */
function withSuperseded(effect: ControllerEffect, saved: ControllerState["checkpoints"]["saved"]): ControllerEffect {
  if (effect.type !== "command" || effect.kind !== "checkpoint.save" || saved?.manifestDigest === undefined)
    return effect;
  const { path, manifestDigest } = saved;
  const superseded = [{ name: path.slice(path.lastIndexOf("/") + 1), manifestDigest }];
  return { ...effect, body: { ...effect.body, superseded } };
}

/** Canaries in what the controller decides about checkpoints. */
export const checkpointCanaries: readonly Canary[] = [
  logicBug("older-goes-uncopied", "an older checkpoint may go although only one host has the newest", {
    profile: "storage",
    seedsMax: 20,
    shape: withThreeSavers,
    line: {
      keeps: (after, before) =>
        after.checkpoints.saved === before.checkpoints.saved
          ? after
          : { ...after, fallback: { ...after.fallback, older: after.fallback.older.slice(0, 1) } },
    },
  }),
  logicBug("counts-too-early", "a checkpoint counts although fewer hosts have it than the job asks for", {
    profile: "storage",
    seedsMax: 20,
    shape: (scenario) => {
      const shaped = withThreeSavers(scenario);
      const { checkpoint } = shaped.config;
      return { ...shaped, config: { ...shaped.config, checkpoint: { ...checkpoint, quorum: 2 } } };
    },
    line: {
      keeps: (after) => {
        const { copies, ...checkpoints } = after.checkpoints;
        const [saved] = copies ?? [];
        return saved ? { ...after, checkpoints: { ...checkpoints, saved } } : after;
      },
    },
  }),
  logicBug("counting-one-goes", "orders to save name the checkpoint that counts as one that may go", {
    profile: "storage",
    seedsMax: 20,
    shape: withThreeSavers,
    line: { does: (effect, { checkpoints }) => withSuperseded(effect, checkpoints.saved) },
  }),
  logicBug("watermark-too-high", "a checkpoint says that it covers groups which come after its step", {
    profile: "kills",
    seedsMax: 20,
    line: { does: (effect) => withWatermark(effect, (watermark) => watermark + 1_000) },
  }),
  logicBug("watermark-left-out", "a checkpoint says that all groups are needed after it, also those that are purged", {
    profile: "storage",
    seedsMax: 20,
    line: { does: (effect) => withWatermark(effect, () => 0) },
  }),
];
