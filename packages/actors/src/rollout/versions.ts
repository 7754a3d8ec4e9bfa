/** Versions of begun groups, in the numbers of the policy and of the engine. */
import type { BegunGroup, Segment } from "@muster/protocol";

/** The same group with its versions renumbered. Pure. */
export function withVersions(group: BegunGroup, numberOf: (version: number) => number): BegunGroup {
  const renumbered = (segment: Segment): Segment => ({ ...segment, version: numberOf(segment.version) });
  return {
    ...group,
    responses: group.responses.map((response) => ({ ...response, segments: response.segments.map(renumbered) })),
  };
}
