/** A run of the user's job as a child of this process: followed by its files, and killed in parts or whole. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkRun } from "@muster/check";
import { openRunFolder } from "@muster/check/files";
import { connectJob, type SeenStatus } from "@muster/client";
import type { Body, EngineSaid } from "@muster/protocol";
import { credentialsOf, findConnection } from "../composition/connection.ts";
import { errors } from "../errors.ts";
import { readEvents } from "../run/read-events.ts";
import { readSamples } from "../run/read-samples.ts";
import type { RunFacts } from "./verdict.ts";

const program = fileURLToPath(new URL("../../bin/muster.mjs", import.meta.url));
const pollMs = 100;
const linesMax = 4_000;

/** Whom a kill ends: one replica of a role, the controller, or all processes of the job at once. */
export const victims = ["rollout", "policy", "controller", "job"] as const;

/** One of the {@link victims}. */
export type Victim = (typeof victims)[number];

/** Where a run is, and how long it may stand still. */
export interface ChildPlace {
  readonly runs: string;
  readonly job: string;
  /** Time in which a step must be committed. */
  readonly stepMs: number;
  readonly signal: AbortSignal;
}

/** A run of a job. */
export class JobChild {
  readonly #place: ChildPlace;
  #child: ChildProcess | null = null;
  #said = "";

  constructor(place: ChildPlace) {
    this.#place = place;
  }

  /** Starts the job, or goes on with it. */
  start(args: readonly string[]): void {
    const { runs } = this.#place;
    const child = spawn(process.execPath, [program, "run", ...args, "--runs", runs, "--quiet", "--supervised"], {
      stdio: ["pipe", "ignore", "pipe"],
    });
    child.stdin?.on("error", () => {}); // a command that is gone closes its input; its exit says all there is to say
    child.stderr?.on("data", (text: Buffer) => {
      this.#said = `${this.#said}${text}`.slice(-linesMax);
    });
    this.#child = child;
  }

  /** The last step that was committed; 0 before the first. */
  committed(): number {
    return Math.max(0, ...this.#committed().steps.keys());
  }

  /** Waits until a step is committed, or the job is over. @throws MUSTER_ERR_CERTIFY_RUN when neither comes in time, or the run fails */
  async until(step: number): Promise<void> {
    let seen = this.committed();
    let sinceMs = performance.now();
    while (seen < step && this.#isRunning()) {
      await this.#pause();
      const now = this.committed();
      if (now > seen) sinceMs = performance.now();
      seen = now;
      if (performance.now() - sinceMs > this.#place.stepMs) throw this.#failed(`no step after step ${seen} in time`);
    }
    if (seen < step && this.#child?.exitCode !== 0) throw this.#failed(`it ended with code ${this.#child?.exitCode}`);
  }

  /** Kills somebody with SIGKILL, once there is somebody. @returns False when the job was over first. */
  async kill(victim: Victim): Promise<boolean> {
    const untilMs = performance.now() + this.#place.stepMs;
    while (this.#isRunning()) {
      const pid = victim === "job" ? this.#child?.pid : await this.#pidOf(victim);
      if (pid !== undefined && killed(pid)) {
        if (victim === "job") await this.#gone();
        return true;
      }
      if (performance.now() > untilMs) throw this.#failed(`there was no ${victim} to kill`);
      await this.#pause();
    }
    return false;
  }

  /** Waits for the end of the run. */
  async ended(): Promise<void> {
    await this.until(Number.POSITIVE_INFINITY);
  }

  /** Everything that its files say, audited. */
  async facts(): Promise<RunFacts> {
    const folder = openRunFolder(this.#directory);
    const { violations } = await checkRun(folder, { journal: { missing: "left out" }, signal: this.#place.signal });
    const samples = readSamples(this.#directory);
    return { ...this.#committed(), samples, violations: violations.map((one) => `${one.rule}: ${one.says}`) };
  }

  /** Ends what is left of it. */
  async close(): Promise<void> {
    this.#child?.kill("SIGTERM");
    this.#child?.stdin?.destroy();
    const untilMs = performance.now() + closeMs;
    while (this.#isRunning()) {
      if (performance.now() > untilMs) this.#child?.kill("SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
  }

  get #directory(): string {
    return join(this.#place.runs, this.#place.job);
  }

  /** What its events say. */
  #committed(): Pick<RunFacts, "steps" | "ended" | "trainers"> {
    const steps = new Map<number, Body<"step.committed">>();
    const trainers = new Map<string, EngineSaid>();
    let ended: RunFacts["ended"] = null;
    for (const { event } of readEvents(this.#directory)) {
      if (event.kind === "step.committed") steps.set(event.body.step, event.body);
      if (event.kind === "job.ended") ended = event.body;
      if (event.kind === "mesh.changed")
        for (const { build, fingerprint } of event.body.engines ?? [])
          trainers.set(`${build} ${fingerprint}`, { build, fingerprint });
    }
    return { steps, ended, trainers: [...trainers.values()] };
  }

  #isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async #pause(): Promise<void> {
    this.#place.signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }

  async #pidOf(victim: Exclude<Victim, "job">): Promise<number | undefined> {
    const status = await this.#status();
    if (victim === "controller") return status?.controller.pid;
    return status?.members.find(({ role, health }) => role === victim && health === "healthy")?.pid;
  }

  /** `null` while nobody can be asked. */
  async #status(): Promise<SeenStatus | null> {
    const { runs, job } = this.#place;
    try {
      const found = findConnection({ runs, job }, ["operator"]);
      const credentials = credentialsOf(found, "operator");
      const client = await connectJob({ url: found.url, job, credentials });
      try {
        return await client.status();
      } finally {
        await client.close();
      }
    } catch {
      return null; // whoever waits for it asks again, until its own deadline
    }
  }

  /** The broker of a run ends with it; who goes on needs its store. */
  async #gone(): Promise<void> {
    const untilMs = performance.now() + closeMs;
    while (this.#isRunning() || (await this.#status()) !== null) {
      if (performance.now() > untilMs) throw this.#failed("its broker outlived it");
      await this.#pause();
    }
  }

  #failed(reason: string): Error {
    const words = this.#said.trim().split("\n").slice(-3).join(" / ").slice(-500);
    return errors.CertifyRun({ job: this.#place.job, reason, directory: this.#directory, words: words || "nothing" });
  }
}

const closeMs = 20_000;

function killed(pid: number): boolean {
  try {
    return process.kill(pid, "SIGKILL");
  } catch {
    return false; // it has ended by itself since it was seen
  }
}
