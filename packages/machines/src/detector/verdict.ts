/** What goes into the failure detector and what comes out of it. */
import type { EvidenceKind, MemberRole } from "@muster/protocol";

/** What the detector found of one incarnation. */
export interface Verdict {
  readonly type: "verdict.suspect" | "verdict.recover" | "verdict.hung" | "verdict.dead";
  readonly id: string;
  readonly incarnation: string;
  /** The strongest evidence; for a recovery that of the suspicion that is over. */
  readonly kind: EvidenceKind;
  /** All of it, in words. */
  readonly evidence: string;
  /** Time since the last sign of life. */
  readonly silentMs: number;
}

/** Who is watched, in order of arrival. */
export interface Watched {
  readonly id: string;
  readonly incarnation: string;
  readonly role: MemberRole;
  /** What it was told to do last. Whoever is told to stop ends its connection, and that is no sign of its death. */
  readonly order?: { readonly kind: string } | null;
}

/** A heartbeat as the detector reads it. */
export interface BeatReading {
  readonly id: string;
  readonly incarnation: string;
  readonly seq: number;
  readonly phase: string;
  readonly progress: number;
  readonly loopLagMs: number;
  /** Failed health checks of its engine in a row; 0 for replicas without an engine. */
  readonly failures: number;
}

/** A question to a silent member. */
export interface Probe {
  readonly id: string;
  readonly incarnation: string;
  readonly nonce: number;
}

/** What a look at the members gave. */
export interface Look {
  readonly verdicts: readonly Verdict[];
  readonly probes: readonly Probe[];
  /** Why nobody is evicted now, said once when that begins; `null` otherwise. */
  readonly alarm: string | null;
  /** A connection to the broker that ends too often, said once in a while; else `null`. */
  readonly outages: string | null;
}
