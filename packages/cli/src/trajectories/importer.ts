/** Brings groups out of files into a job: stored first, then told to the controller, which takes each group once. */
import {
  loadTrajectories,
  type RefusedFile,
  scanTrajectories,
  storeGroups,
  type TrajectoryFile,
} from "@muster/actors/trajectories";
import { hasCode, messageOf } from "@muster/base";
import type { JobClient } from "@muster/client";
import { type ChangedSettings, importReceiptsMax, type JobConfig, type TrajectoryGroup } from "@muster/protocol";
import type { Transport } from "@muster/transport";

/** What an importer works with. */
export interface ImporterOptions {
  readonly folder: string;
  readonly config: JobConfig;
  readonly client: Pick<JobClient, "command">;
  /** With the credentials of a sampler of the name `trajectories`. */
  readonly transport: Pick<Transport, "publish">;
  /** A file counts for nothing, and why; each once. */
  readonly onRefused: (file: RefusedFile) => void;
}

/** Where a job is: the next step, and the newest weights. */
export interface JobPlace {
  readonly step: number;
  readonly version: number;
  /** What operators changed; absent: nothing. */
  readonly changes?: readonly ChangedSettings[] | undefined;
}

/** What came of an import. */
export interface Imported {
  /** Groups that the job took, in the words of its controller. */
  readonly details: readonly string[];
  /** Files that were brought, and those of later steps. */
  readonly files: number;
  readonly later: number;
}

const answerMs = 60_000;

/** The files of one folder and one job: each is brought once. */
export class Importer {
  readonly #options: ImporterOptions;
  readonly #done = new Set<string>();
  readonly #refused = new Set<string>();

  constructor(options: ImporterOptions) {
    this.#options = options;
  }

  /** Brings the files that the job can use where it is. @throws What the file system throws for the folder, and the transport. */
  async bring({ step, version, changes }: JobPlace): Promise<Imported> {
    const { folder, config } = this.#options;
    const { files, refused } = await scanTrajectories(folder, { ...config, changes });
    for (const file of refused) this.#refuse(file);
    const open = files.filter(({ path }) => !this.#done.has(path));
    const isLater = ({ head }: TrajectoryFile): boolean =>
      head.step > step + config.stalenessMax || head.weights.version > version;
    const details: string[] = [];
    const now = open.filter((file) => !isLater(file));
    for (const file of now) {
      this.#done.add(file.path);
      if (file.head.step < step) {
        details.push(`step ${file.head.step} is trained already: ${file.head.groups.length} groups are left out`);
        continue;
      }
      const groups = await loadTrajectories(file, config);
      if (typeof groups === "string") this.#refuse({ path: file.path, reason: groups });
      else details.push(...(await this.#bringGroups(file, groups)));
    }
    return { details, files: now.length, later: open.length - now.length };
  }

  async #bringGroups({ path, head }: TrajectoryFile, groups: readonly TrajectoryGroup[]): Promise<readonly string[]> {
    const { client } = this.#options;
    const details: string[] = [];
    for (let from = 0; from < groups.length; from += importReceiptsMax) {
      const part = groups.slice(from, from + importReceiptsMax);
      const stored = await this.#store(part, head.weights.version, path);
      if (stored.length === 0) return details;
      const versions = new Map(head.groups.map(({ index, version }) => [index, version]));
      const receipts = stored.map((receipt) => ({
        ...receipt,
        version: versions.get(receipt.index) ?? receipt.version,
      }));
      const body = { weights: head.weights, receipts };
      const end = await client.command("groups.import", body, { timeoutMs: answerMs });
      if (end?.outcome === "done") details.push(end.detail);
      else this.#refuse({ path, reason: end?.detail ?? `no controller answered within ${answerMs / 1_000} s` });
    }
    return details;
  }

  async #store(groups: readonly TrajectoryGroup[], version: number, path: string) {
    const { transport, config } = this.#options;
    try {
      return await storeGroups(transport, groups, { config, version });
    } catch (error) {
      if (!hasCode(error, "MUSTER_ERR_STREAM_FULL")) throw error;
      this.#refuse({ path, reason: `the groups stream has no room for it: ${messageOf(error)}` });
      return [];
    }
  }

  #refuse(file: RefusedFile): void {
    if (this.#refused.has(file.path)) return;
    this.#refused.add(file.path);
    this.#options.onRefused(file);
  }
}
