/**
 * The second host of a job: a node that runs samplers, and a trainer that an operator started by hand. Each process is started again when
 * it ends, and ends when this process does, whose end closes its standard input.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { MusterProgram } from "./job-process.ts";
import { type FarNamespace, openFarNamespace } from "./namespace.ts";
import { type PartitionWay, partition } from "./partition.ts";

/** The second host of a run. */
export interface FarHost {
  /** Ids of the trainer and the node that run there. */
  readonly ids: readonly string[];
  readonly namespace: FarNamespace;
  /** Starts its processes. The job's broker must run. */
  start(where: FarJob): void;
  /** Cuts it off. @returns Ends that. */
  cut(way: PartitionWay, index: number): () => void;
  /** Starts nothing again from now on. */
  release(): void;
  /** Ends everything on it, and removes it; the broker's address goes with it. */
  close(): void;
}

/** The job that it belongs to. */
export interface FarJob {
  readonly program: MusterProgram;
  readonly runs: string;
  readonly job: string;
  /** Folder of the sockets of this host, which the second one has for itself. */
  readonly socketDirectory: string;
  /** Port of the proxy before the broker. */
  readonly brokerPort: number;
  /** Samplers that it may run. */
  readonly rollouts: number;
}

const hostName = "far";
const pauseMs = 1_000;

/** Makes the second host. */
export function openFarHost(): FarHost {
  return new OpenFarHost(openFarNamespace());
}

class OpenFarHost implements FarHost {
  readonly ids = ["far-policy", "far-node"];
  readonly namespace: FarNamespace;
  readonly #pauses = new Set<NodeJS.Timeout>();
  #job: FarJob | null = null;
  #isReleased = false;
  #isClosed = false;

  constructor(namespace: FarNamespace) {
    this.namespace = namespace;
  }

  start(job: FarJob): void {
    this.#job = job;
    this.#run(job, "far-node", ["node", "--capacity", `policy=0,rollout=${job.rollouts},checkpoint=0`]);
    this.#run(job, "far-policy", ["policy"]);
  }

  cut(way: PartitionWay, index: number): () => void {
    const { nearAddress } = this.namespace;
    const brokerPort = this.#job?.brokerPort ?? 0;
    const ports = listeningPorts(nearAddress).filter((port) => port !== brokerPort);
    const dataPort = ports[index % Math.max(1, ports.length)] ?? null;
    const end = partition(this.namespace, way, { nearAddress, brokerPort, dataPort });
    return () => {
      if (!this.#isClosed) end();
    };
  }

  release(): void {
    this.#isReleased = true;
    for (const pause of this.#pauses) clearTimeout(pause);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.release();
    this.namespace.close();
  }

  #run(job: FarJob, id: string, args: readonly string[]): void {
    if (this.#isReleased) return;
    const { program, runs, socketDirectory } = job;
    // A name, and a folder for sockets of its own: nothing but TCP leads to the other host.
    const setup = 'hostname "$0" && mkdir -p "$1" && mount -t tmpfs none "$1" && shift && exec "$@"';
    const inside = ["unshare", "--uts", "--mount", "sh", "-c", setup, hostName, socketDirectory];
    const flags = ["--id", id, "--runs", runs, "--job", job.job, "--supervised"];
    const [command = "ip", ...rest] = [...this.namespace.wrapper, ...inside, ...program.command, ...args, ...flags];
    const log = openSync(join(runs, job.job, "logs", `${id}.err`), "a", 0o600);
    const child = spawn(command, rest, { env: { ...program.env }, stdio: ["pipe", "ignore", log] });
    closeSync(log);
    // A child that is gone closes the pipe; its exit says all there is to say.
    child.stdin?.on("error", () => {});
    child.once("exit", () => {
      if (this.#isReleased) return;
      const pause = setTimeout(() => {
        this.#pauses.delete(pause);
        this.#run(job, id, args);
      }, pauseMs);
      this.#pauses.add(pause);
    });
  }
}

const stateListen = "0A";

/** Ports on which processes of this host listen at an IPv4 address. Reads /proc, hence Linux. */
function listeningPorts(address: string): readonly number[] {
  const bytes = address.split(".").map((part) => Number(part).toString(16).padStart(2, "0").toUpperCase());
  const wanted = bytes.reverse().join("");
  return readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const [, local = "", , state] = line.trim().split(/\s+/);
      const [host, port = "0"] = local.split(":");
      return state === stateListen && host === wanted ? [Number.parseInt(port, 16)] : [];
    })
    .sort((a, b) => a - b);
}
