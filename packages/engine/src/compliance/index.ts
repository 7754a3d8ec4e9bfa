/**
 * What everything outside of an engine relies on, as checks that any adapter can be put through, with any test runner: each has a sentence, and
 * throws when it does not hold.
 */
import type { JobConfig } from "@muster/protocol";
import type { PolicyEngine, RolloutEngine } from "../engine.ts";
import type { EngineOptions } from "../registry/adapter.ts";
import { EngineRegistry } from "../registry/engine-registry.ts";
import type { EngineCheck, EngineSubject } from "./check.ts";
import { describeChecks } from "./describe-checks.ts";
import { policyChecks } from "./policy-checks.ts";
import { rolloutChecks } from "./rollout-checks.ts";

export type { EngineSubject } from "./check.ts";

/** A check that is ready to run. */
export interface ReadyCheck {
  readonly says: string;
  run(): Promise<void>;
}

/** The checks that concern an adapter, by the roles that it has. */
export function engineChecks(subject: EngineSubject): readonly ReadyCheck[] {
  const { roles } = subject.adapter;
  const checks = [
    ...describeChecks,
    ...(roles.includes("policy") ? policyChecks : []),
    ...(roles.includes("rollout") ? rolloutChecks : []),
  ];
  return checks.map(({ says, run }) => ({ says, run: () => withEngines(subject, run) }));
}

async function withEngines(subject: EngineSubject, run: EngineCheck["run"]): Promise<void> {
  const { adapter, options, needs } = subject;
  const values = adapter.schema.parse(options) as EngineOptions;
  const choice = { adapter: "subject", options: values };
  const config = {
    engine: { policy: choice, rollout: choice },
    rollout: { generate: null, fanOut: 1, ranks: 1 },
    sampling: { temperature: 1, maxNewTokens: needs.maxContext - 1 },
  } as unknown as JobConfig;
  const registry = new EngineRegistry([["subject", adapter]]);
  const opened: (PolicyEngine | RolloutEngine)[] = [];
  const keep = <E extends PolicyEngine | RolloutEngine>(engine: E): E => {
    opened.push(engine);
    return engine;
  };
  try {
    await run({
      ...subject,
      options: values,
      described: adapter.describe(values, needs),
      policy: async () => keep(await registry.openPolicy(config, needs)),
      rollout: async () => keep(await registry.openRollout(config, needs)),
    });
  } finally {
    for (const engine of opened) await engine.close();
  }
}
