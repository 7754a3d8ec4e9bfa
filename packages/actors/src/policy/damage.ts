/** What a trainer says of a checkpoint that it could not restore. */
import { hasCode } from "@muster/base";
import type { Body } from "@muster/protocol";

type Damage = NonNullable<Body<"weights.failed">["damage"]>;

const replaced = { kind: "gone", reason: "its manifest is not the one that was reported durable" } as const;

/**
 * Whether a failed load says something of the checkpoint itself, and not of this moment. A folder of that name with another manifest is another
 * checkpoint: whatever is wrong with it, the one that was asked for is not there. Pure.
 */
export function damageOf(error: unknown, source: Body<"weights.initialize">["source"]): { readonly damage?: Damage } {
  if (hasCode(error, "MUSTER_ERR_CHECKPOINT_MISSING"))
    return { damage: { kind: "gone", reason: "its folder is not there" } };
  if (hasCode(error, "MUSTER_ERR_CHECKPOINT_REPLACED")) return { damage: replaced };
  if (!hasCode(error, "MUSTER_ERR_CHECKPOINT_CORRUPT")) return {};
  const { reason, manifestDigest } = error.params;
  if (typeof manifestDigest !== "string") return { damage: { kind: "corrupt", reason: String(reason) } };
  const told = source.kind === "checkpoint" ? source.manifestDigests : undefined;
  if (told && !told.includes(manifestDigest)) return { damage: replaced };
  return { damage: { kind: "corrupt", reason: String(reason), manifestDigest } };
}
