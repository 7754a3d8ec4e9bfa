/**
 * Failpoints: named places in the protocol where a seed can make something go wrong. They lie in the simulator's own wrappers of
 * wire, engines, data plane and disk; production code knows nothing of them.
 */
import { errors } from "../errors.ts";
import type { SimProcess } from "../world/process.ts";

/** What happens at a failpoint. */
export type FailAction =
  | { readonly type: "crash" }
  /** SIGSTOP, and SIGCONT after `forMs`; `hang` stops only the main thread. */
  | { readonly type: "pause" | "hang"; readonly forMs: number }
  /** The message, or the answer, is lost; work that has no message never ends. */
  | { readonly type: "drop" }
  | { readonly type: "delay"; readonly delayMs: number }
  | { readonly type: "error" };

/** One armed failpoint: the `nth` time (from 1) that any process comes to the point. */
export interface Arm {
  readonly point: string;
  readonly nth: number;
  readonly action: FailAction;
}

/** What the code at the point has to do itself; crashes and pauses are done when it hears of it. */
export interface Hit {
  readonly type: FailAction["type"];
  readonly delayMs?: number;
}

/** What was done at a point, and how often. */
export interface Strike {
  readonly point: string;
  readonly action: FailAction["type"];
  readonly count: number;
}

/** The failpoints of one run. */
export class Failpoints {
  readonly #arms = new Map<string, Arm[]>();
  readonly #counts = new Map<string, number>();
  readonly #strikes = new Map<string, Strike>();
  readonly #onHit: (arm: Arm, process: SimProcess) => void;
  #isOn = true;

  constructor(arms: readonly Arm[], onHit: (arm: Arm, process: SimProcess) => void) {
    this.#onHit = onHit;
    for (const arm of arms) this.#arms.set(arm.point, [...(this.#arms.get(arm.point) ?? []), arm]);
  }

  /** How often each point was reached. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** What was done where. */
  get strikes(): readonly Strike[] {
    return [...this.#strikes.values()];
  }

  /** From now on nothing happens any more: the faults are over. */
  disarm(): void {
    this.#isOn = false;
  }

  /** A process comes to a point. */
  hit(process: SimProcess, point: string): Hit | null {
    const count = (this.#counts.get(point) ?? 0) + 1;
    this.#counts.set(point, count);
    if (!this.#isOn) return null;
    const arm = this.#arms.get(point)?.find(({ nth }) => nth === count);
    if (!arm || process.isDead) return null;
    const key = `${point} ${arm.action.type}`;
    const known = this.#strikes.get(key);
    this.#strikes.set(key, { point, action: arm.action.type, count: (known?.count ?? 0) + 1 });
    this.#onHit(arm, process);
    return arm.action;
  }

  /** For work: comes to a point, and fails, waits or never ends there. */
  async pass(process: SimProcess, point: string): Promise<void> {
    const action = this.hit(process, point);
    if (action?.type === "error") throw errors.SimInjected({ point });
    if (action?.type === "delay") await process.sleep(action.delayMs ?? 0);
    if (action?.type === "drop" || process.isDead) await new Promise<never>(() => {});
  }
}
