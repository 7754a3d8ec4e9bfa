/** On what a proof was made: what it is worth elsewhere depends on all of this being the same there. */
import { createHash } from "node:crypto";
import { arch, cpus, release } from "node:os";
import { findDevices } from "@muster/actors";
import { rulesOfProgram } from "@muster/actors/controller";
import { needsOfJob } from "@muster/data";
import type { EngineRegistry } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";

/** What computes, by name. */
export interface Fingerprint {
  /** Of all that follows. */
  readonly digest: string;
  readonly parts: Readonly<Record<string, string>>;
}

/** Looks at this host and the engines of a job. Each engine is named with its options: flags and devices are among them. */
export async function fingerprintOf(config: JobConfig, engines: EngineRegistry): Promise<Fingerprint> {
  const { digest, build } = rulesOfProgram();
  const devices = await findDevices({ env: process.env });
  const engineOf = (role: "policy" | "rollout"): string => {
    const { adapter, options } = config.engine[role];
    const { program } = engines.describe(role, config.engine, needsOfJob(config));
    const build = [engines.of(adapter).build(), ...(program === undefined ? [] : [program])].join(" of ");
    return `${adapter}, build ${build}, ${JSON.stringify(options)}`;
  };
  const parts = {
    muster: `${build}, rules ${digest}`,
    node: `${process.version} ${arch()}`,
    system: release(),
    processor: cpus()[0]?.model ?? "unknown",
    devices: devices.join(", ") || "none",
    trainer: engineOf("policy"),
    sampler: engineOf("rollout"),
  };
  return { digest: createHash("sha256").update(JSON.stringify(parts)).digest("hex"), parts };
}
