/** The figures of a step in words, for `muster watch`. Pure. */
import type { Body } from "@muster/protocol";
import { cleanLine, compact, percent } from "../report/text.ts";

type Committed = Body<"step.committed">;

const versionsMax = 4;
const namesMax = 6;
const componentsShown = 6;

const indent = " ".repeat(12);

/** What people who train look at, in four lines or fewer. */
export function figuresText(body: Committed): string {
  const { loss, heldOutLoss, approxKl, logprobGap, logprobGapMax, klReference, clipFraction, entropy, gradNorm, lr } =
    body;
  const policy = [
    `loss ${compact(loss)}`,
    ...(heldOutLoss === undefined ? [] : [`held-out loss ${compact(heldOutLoss)}`]),
    ...(approxKl === undefined ? [] : [`kl ${compact(approxKl)}`]),
    ...(klReference === undefined ? [] : [`kl to reference ${compact(klReference)}`]),
    ...(logprobGap === undefined || logprobGapMax === undefined
      ? []
      : [`log-prob gap ${compact(logprobGap)}, at most ${compact(logprobGapMax)}`]),
    `clipped ${percent(clipFraction)}`,
    `entropy ${compact(entropy)}`,
    `gradient ${compact(gradNorm)}`,
    ...(lr === undefined ? [] : [`lr ${compact(lr)}`]),
  ];
  return [policy, batchOf(body), componentsOf(body), heldOf(body)]
    .filter((parts) => parts.length > 0)
    .map((parts) => `\n${indent}${parts.join("  ")}`)
    .join("");
}

function batchOf(body: Committed): readonly string[] {
  const { rewardSpread, rewardLeast, rewardMost, lengthMean, lengthMax, truncated, evenGroups } = body;
  const { trainTokensPerS, sampleTokensPerS } = body;
  const isKnown = (value: number | undefined): value is number => value !== undefined;
  return [
    ...(isKnown(rewardSpread) && isKnown(rewardLeast) && isKnown(rewardMost)
      ? [`reward ±${compact(rewardSpread)} (${compact(rewardLeast)} to ${compact(rewardMost)})`]
      : []),
    ...(isKnown(evenGroups) ? [`without advantage ${percent(evenGroups)}`] : []),
    ...(isKnown(lengthMean) && isKnown(lengthMax) ? [`length ${compact(lengthMean)}, at most ${lengthMax}`] : []),
    ...(isKnown(truncated) ? [`truncated ${percent(truncated)}`] : []),
    ...(isKnown(trainTokensPerS) ? [`trainers ${compact(trainTokensPerS)} tok/s`] : []),
    ...(isKnown(sampleTokensPerS) ? [`samplers ${compact(sampleTokensPerS)} tok/s`] : []),
  ];
}

/** Mean and standard deviation of the parts of rewards. */
function componentsOf({ components = [], componentsMore = 0 }: Committed): readonly string[] {
  const more = components.length - componentsShown + componentsMore;
  const parts = components
    .slice(0, componentsShown)
    .map(({ name, mean, spread }) => `${cleanLine(name, 48)} ${compact(mean)} ±${compact(spread)}`);
  return more > 0 && parts.length > 0 ? [...parts, `and ${more} more`] : parts;
}

/** Who held what, the oldest version first. */
function heldOf({ held = [] }: Committed): readonly string[] {
  const byVersion = new Map<string, string[]>();
  for (const { id, version } of held) {
    const name = version === null ? "no version" : `v${version}`;
    byVersion.set(name, [...(byVersion.get(name) ?? []), cleanLine(id, 40)]);
  }
  const named = [...byVersion].slice(0, versionsMax).map(([name, ids]) => {
    const more = ids.length > namesMax ? ` and ${ids.length - namesMax} more` : "";
    return `${name}: ${ids.slice(0, namesMax).join(", ")}${more}`;
  });
  return named.length === 0 ? [] : [`held by ${named.join("; ")}`];
}
