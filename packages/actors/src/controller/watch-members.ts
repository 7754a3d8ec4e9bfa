/** Feeds the failure detector with heartbeats and the controller with its verdicts. */
import type { Clock } from "@muster/base";
import {
  applyBeat,
  applyBlindness,
  type DetectorTiming,
  initialDetector,
  planVerdicts,
  type VerdictEvent,
} from "@muster/machines";
import type { AnyMessage, Body } from "@muster/protocol";

/** Latest heartbeat of a member, for display. */
export type Beat = Body<"heartbeat.beat"> & { readonly incarnation: string; readonly atMs: number };

/** The watch over the members of a job. */
export interface MemberWatch {
  heard(message: AnyMessage): void;
  /** The broker was away: silence until now proves nothing. */
  blinded(): void;
  /** Verdicts that are due now. */
  verdicts(members: readonly { readonly id: string; readonly incarnation: string }[]): readonly VerdictEvent[];
  beats(): ReadonlyMap<string, Beat>;
}

/** Starts watching. */
export function watchMembers(clock: Clock, timing: DetectorTiming): MemberWatch {
  let detector = initialDetector;
  const beats = new Map<string, Beat>();
  return {
    heard(message) {
      if (message.kind !== "heartbeat.beat") return;
      const { from: id, incarnation, seq, body } = message;
      detector = applyBeat(detector, { id, incarnation, seq }, clock.now());
      beats.set(id, { ...body, incarnation, atMs: clock.now() });
    },
    blinded() {
      detector = applyBlindness(detector, clock.now(), timing);
    },
    verdicts(members) {
      const found = planVerdicts(detector, members, { ...timing, nowMs: clock.now() });
      detector = found.state;
      for (const id of beats.keys()) if (!found.state.sightings[id]) beats.delete(id);
      return found.verdicts.map((verdict) => ({ ...verdict, atMs: clock.now() }));
    },
    beats: () => beats,
  };
}
