/** One thing that an engine must do, and what it is tried with. */
import { isDeepStrictEqual } from "node:util";
import type { ModelNeeds } from "@muster/data";
import type { PolicyEngine, RolloutEngine } from "../engine.ts";
import { errors } from "../errors.ts";
import type { EngineAdapter, EngineDescription, EngineOptions } from "../registry/adapter.ts";

/** An adapter under test. */
export interface EngineSubject {
  readonly adapter: EngineAdapter;
  /** Its own table; what is left out has its default. */
  readonly options: EngineOptions;
  readonly needs: ModelNeeds;
}

/** What the checks of an engine are given. */
export interface Given extends EngineSubject {
  readonly described: EngineDescription;
  /** Opens engines, and closes them when the check is over. */
  policy(): Promise<PolicyEngine>;
  rollout(): Promise<RolloutEngine>;
}

/** One thing that an engine must do. */
export interface EngineCheck {
  readonly says: string;
  run(given: Given): Promise<void>;
}

/** Fails a check. @throws MUSTER_ERR_ENGINE_NOT_COMPLIANT */
export function mustHold(holds: boolean, what: string): void {
  if (!holds) throw errors.EngineNotCompliant({ what });
}

/** Fails a check unless two values are the same all the way down. @throws MUSTER_ERR_ENGINE_NOT_COMPLIANT */
export function mustEqual(found: unknown, wanted: unknown, what: string): void {
  const short = (value: unknown): string => String(JSON.stringify(value)).slice(0, 200);
  mustHold(isDeepStrictEqual(found, wanted), `${what}: ${short(found)}, and it should be ${short(wanted)}`);
}

/** Fails a check unless a promise is refused. @throws MUSTER_ERR_ENGINE_NOT_COMPLIANT */
export async function mustRefuse(work: () => Promise<unknown>, what: string): Promise<void> {
  const isRefused = await work().then(
    () => false,
    () => true,
  );
  mustHold(isRefused, `${what} is not refused`);
}
