/** Other ways of doing the same: Open MPI and torch.distributed with gloo, as Debian packages them. Their programs are in `bench/peers`. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { errors } from "../errors.ts";
import { endText, hugePages } from "./members.ts";

/** What a peer is asked to do. */
export type PeerOperation = "broadcast" | "allreduce" | "broadcast-many";

/** One run of a peer. */
export interface PeerTask {
  readonly operation: PeerOperation;
  /** Processes. */
  readonly world: number;
  readonly bytes: number;
  readonly repeats: number;
  /** Network namespaces by rank, for a run over several hosts. */
  readonly namespaces?: readonly { readonly name: string; readonly address: string }[];
  readonly signal: AbortSignal;
}

/** What a peer took. */
export interface PeerTimes {
  /** Of each repeat, from a barrier until every process is done. */
  readonly seconds: readonly number[];
  /** Of all processes together, for one repeat. */
  readonly cpuSeconds: number;
}

/** A peer that is installed. */
export interface Peer {
  readonly name: PeerName;
  /** @throws MUSTER_ERR_BENCH_PEER */
  run(task: PeerTask): Promise<PeerTimes>;
}

/** Peers that can be asked for. */
export const peerNames = ["Open MPI", "gloo"] as const;
/** A peer. */
export type PeerName = (typeof peerNames)[number];

const folder = fileURLToPath(new URL("../../../../bench/peers", import.meta.url));
const python = "/usr/bin/python3";
const deadlineMs = 300_000;
const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" };

/**
 * Finds the peers on this machine, and compiles the program of Open MPI.
 *
 * @param scratch Folder for what is compiled.
 * @param names Those that are wanted.
 */
export function findPeers(
  scratch: string,
  names: readonly PeerName[] = peerNames,
): { readonly peers: readonly Peer[]; readonly notes: readonly string[] } {
  const found = names.map((name) => (name === "gloo" ? gloo() : openMpi(scratch)));
  const missing = names.filter((_, i) => found[i] === null);
  return {
    peers: found.filter((peer) => peer !== null),
    notes: missing.map(
      (name) => `${name} is not installed, so there is no comparison; sh bench/peers/install.sh gets it`,
    ),
  };
}

function openMpi(scratch: string): Peer | null {
  const source = join(folder, "open_mpi.c");
  if (!existsSync(source)) return null;
  const program = join(scratch, "open_mpi");
  const compiled = spawnSync("mpicc", ["-O2", "-o", program, source], { stdio: "ignore", timeout: deadlineMs });
  if (compiled.status !== 0) return null;
  return {
    name: "Open MPI",
    run: async ({ operation, world, bytes, repeats, signal }) => {
      const args = [
        "--oversubscribe",
        "--bind-to",
        "none",
        "-np",
        `${world}`,
        program,
        operation,
        `${bytes}`,
        `${repeats}`,
      ];
      return await run("Open MPI", "mpirun", args, signal);
    },
  };
}

function gloo(): Peer | null {
  const script = join(folder, "gloo.py");
  if (!existsSync(script)) return null;
  const probe = spawnSync(python, ["-c", "import torch.distributed"], { stdio: "ignore", timeout: deadlineMs });
  if (probe.status !== 0) return null;
  return {
    name: "gloo",
    run: async ({ operation, world, bytes, repeats, namespaces, signal }) => {
      const places = namespaces ? [namespaces.map(({ name, address }) => `${name}=${address}`).join(",")] : [];
      return await run("gloo", python, [script, operation, `${world}`, `${bytes}`, `${repeats}`, ...places], signal);
    },
  };
}

function run(peer: PeerName, command: string, args: readonly string[], signal: AbortSignal): Promise<PeerTimes> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...asRoot, ...hugePages },
      signal,
      timeout: deadlineMs,
    });
    const out: Buffer[] = [];
    const complaints: Buffer[] = [];
    child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => complaints.push(chunk));
    child.on("error", (error) =>
      reject(signal.aborted ? error : errors.BenchPeer({ peer, reason: error.message }, error)),
    );
    child.on("close", (code, ended) => {
      const line = Buffer.concat(out).toString("utf8").trim().split("\n").at(-1) ?? "";
      if (code === 0 && line.startsWith("{")) return resolve(JSON.parse(line) as PeerTimes);
      const last = Buffer.concat(complaints).toString("utf8").trim().split("\n").at(-1);
      const how = child.killed ? `it took longer than ${deadlineMs / 1000} s` : `it ${endText(code, ended)}`;
      reject(errors.BenchPeer({ peer, reason: last && !child.killed ? `${how}: ${last}` : how }));
    });
  });
}
