/** How much time the promises of liveness leave. */

/** Times within which something must have happened. */
export interface Allowance {
  /** L1: between two things that are got done, once the faults are over. */
  readonly progressMs: number;
  /** L2: from the first lease of a group to its result, or until it is given up. */
  readonly promptMs: number;
  /** L3: from the end of the faults until everybody who lives is a member. */
  readonly membershipMs: number;
  /** L4: from the death of a controller to the first record of the next one. */
  readonly successionMs: number;
}
