/** `muster run --rl-phase`: tells the controller what the job does, brings and writes files of trajectories, and ends the run when its phase is over. */
import { randomBytes } from "node:crypto";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Exported, exportTrajectories, importerId } from "@muster/actors/trajectories";
import { type Logger, messageOf } from "@muster/base";
import { readChanges } from "@muster/check";
import type { EventMessage, JobClient } from "@muster/client";
import type { Body, JobConfig, RlPhase } from "@muster/protocol";
import { type Credentials, connectNats, type Transport } from "@muster/transport";
import { cleanLine } from "../report/text.ts";
import { Importer, type JobPlace } from "../trajectories/importer.ts";

/** What a run does, and with which files. */
export interface PhaseOptions {
  readonly phase: RlPhase;
  /** Folder of files to train; `null` for none. */
  readonly trajectories: string | null;
  /** Share of the groups of a step without which it is not trained; `null` for all. */
  readonly quorum: number | null;
}

/** What a keeper works with. */
export interface PhaseTools extends PhaseOptions {
  readonly config: JobConfig;
  /** Folder of the run. */
  readonly directory: string;
  readonly url: string;
  readonly credentials: Readonly<Record<string, Credentials>>;
  readonly client: JobClient;
  readonly logger: Logger;
  readonly note: (line: string) => void;
  /** The phase is over; the job can go on with another. */
  readonly over: (reason: string) => void;
  /** The phase can not go on. */
  readonly failed: (reason: string) => void;
}

type PhaseEnd = Body<"phase.ended">;

interface OpenImporter {
  readonly importer: Importer;
  close(): Promise<void>;
}

const answerMs = 60_000;

/** How long a status that is newer than an event is waited for, which comes once a second, and how often it is looked for. */
const statusMs = 5_000;
const lookMs = 100;

/** Folder of the files that a phase of rollout writes. */
export const trajectoriesIn = (directory: string): string => join(directory, "trajectories");

/** Keeps the phase of one run. What it does is done one after the other. */
export class PhaseKeeper {
  readonly #tools: PhaseTools;
  /** Left while the job is told to do one thing only: whoever goes on with it otherwise must say so. */
  readonly #mark: string;
  #turn: Promise<void> = Promise.resolve();
  #importer: OpenImporter | null = null;
  /** The last step for which a quorum was asked. */
  #asked = 0;
  /** Id under which the controller was told last what the job does, and that of which it said that it is done. */
  #told = "";
  #heard: string | null = null;
  /** While files are written. */
  #exporting: Transport | null = null;
  /** The last reason why no files were brought. */
  #hindrance = "";

  constructor(tools: PhaseTools) {
    this.#tools = tools;
    this.#mark = join(tools.directory, "rl-phase");
  }

  /** Says what the job does, before anybody of it is started. */
  begin(): void {
    const { phase, trajectories } = this.#tools;
    if (phase !== "both") writeFileSync(this.#mark, `${phase}\n`, { mode: 0o600 });
    else if (!existsSync(this.#mark) && trajectories === null) return;
    this.#next(async () => {
      await this.#tell();
      if (phase === "both") rmSync(this.#mark, { force: true });
    });
  }

  /** Takes an event of this life of the run. */
  take(event: EventMessage): void {
    const { phase, trajectories } = this.#tools;
    // A controller also answers what an earlier life of this run told, and answers again after an end of its own.
    if (event.kind === "command.done" && event.body.commandId === this.#told) this.#heard = this.#told;
    if (event.kind === "phase.ended" && event.body.phase === phase) {
      const heard = this.#heard;
      // What was said before the controller was told again counts for nothing: it says it again.
      this.#next(async () => {
        if (heard === this.#told) await this.#ended(event.body);
      });
    }
    // What is there is taken from files, and samplers do the rest.
    if (phase !== "both" || trajectories === null) return;
    if (event.kind !== "step.committed" && event.kind !== "step.skipped" && event.kind !== "mesh.changed") return;
    this.#next(() =>
      this.#bringAfter(event).catch((error: unknown) => {
        const reason = messageOf(error);
        if (reason !== this.#hindrance) this.#tools.note(`! no groups are taken from files now: ${reason}`);
        this.#hindrance = reason;
      }),
    );
  }

  async close(): Promise<void> {
    await Promise.all([this.#importer?.close(), this.#exporting?.close()]);
  }

  async #bringAfter(event: EventMessage): Promise<void> {
    const place = await this.#placeAfter(event);
    if (place) await this.#bring(place);
  }

  /** Where the job is after an event: a status from before it says nothing of that. */
  async #placeAfter({ kind, body, sentAtMs }: EventMessage): Promise<JobPlace | null> {
    if (kind === "step.committed" || kind === "step.skipped") return { step: body.step + 1, version: body.version };
    for (const endMs = Date.now() + statusMs; Date.now() < endMs; await sleep(lookMs)) {
      const status = await this.#tools.client.status();
      if (!status || status.atMs < sentAtMs) continue;
      return status.version === null ? null : { step: status.step + 1, version: status.version };
    }
    return null;
  }

  async #tell(partial?: { readonly step: number; readonly quorum: number }): Promise<void> {
    const { phase, client } = this.#tools;
    this.#told = `c-${randomBytes(6).toString("hex")}`;
    const body = { phase, ...(partial ? { partial } : {}), commandId: this.#told };
    const end = await client.command("job.phase", body, { timeoutMs: answerMs });
    if (end?.outcome !== "done") throw new Error(end?.detail ?? "no controller answered");
  }

  #next(work: () => Promise<void>): void {
    const { failed, phase } = this.#tools;
    this.#turn = this.#turn.then(work).catch((error: unknown) => failed(`--rl-phase ${phase}: ${messageOf(error)}`));
  }

  async #ended(end: PhaseEnd): Promise<void> {
    if (end.phase === "rollout") return await this.#export(end);
    const { trajectories, quorum, over } = this.#tools;
    const brought = trajectories === null ? 0 : await this.#bring(end);
    // Asked again, the controller says so again where that was not enough.
    if (brought > 0) return await this.#tell();
    if (quorum !== null && this.#asked < end.step && end.groups / end.of >= quorum) {
      this.#asked = end.step;
      return await this.#tell({ step: end.step, quorum });
    }
    over(`phase update is over: ${end.reason}`);
  }

  async #export(end: PhaseEnd): Promise<void> {
    const { config, directory, note, over } = this.#tools;
    const transport = await this.#connect("controller");
    this.#exporting = transport;
    try {
      const folder = trajectoriesIn(directory);
      const exported = await exportTrajectories(transport, config, folder).catch((error: unknown) => {
        throw new Error(`what is sampled can not be written to ${folder}: ${messageOf(error)}`);
      });
      note(exportedText(exported, folder));
    } finally {
      await transport.close();
    }
    over(`phase rollout is over: ${end.reason}`);
  }

  /** @returns Files that were brought. */
  async #bring(place: JobPlace): Promise<number> {
    const { note, directory } = this.#tools;
    this.#importer ??= await this.#open();
    const changes = readChanges(directory) ?? undefined;
    const { details, files } = await this.#importer.importer.bring({ ...place, changes });
    for (const detail of details) note(`+ step ${place.step}: ${detail}`);
    return details.length > 0 ? files : 0;
  }

  async #open(): Promise<OpenImporter> {
    const { config, client, note, trajectories } = this.#tools;
    const transport = await this.#connect("rollout");
    const onRefused = ({ path, reason }: { readonly path: string; readonly reason: string }): void =>
      note(`! ${path} is not imported: ${reason}`);
    const importer = new Importer({ folder: trajectories ?? "", config, client, transport, onRefused });
    return { importer, close: () => transport.close() };
  }

  /** A connection of its own, with what a role may do: the journal is read as a controller, groups are stored as a sampler. */
  async #connect(role: "controller" | "rollout"): Promise<Transport> {
    const { url, credentials: all, config, logger } = this.#tools;
    const credentials = all[role];
    if (!credentials) throw new Error(`this run has no credentials of the role ${role}`);
    const name = `${role}.${importerId}.${process.pid}`;
    return await connectNats({ url, job: config.job, credentials, name, logger, connectTimeoutMs: 10_000 });
  }
}

/** What an export did, in words. Pure. */
export function exportedText({ files, groups, known, refused }: Exported, folder: string): string {
  const more = known > 0 ? `, ${known} were there already` : "";
  const lost = refused.map(({ path, reason }) => `; not ${cleanLine(`${path}: ${reason}`)}`).slice(0, 8);
  const others = refused.length > lost.length ? `; nor ${refused.length - lost.length} more` : "";
  return `${groups} groups in ${files.length} files in ${folder}${more}${lost.join("")}${others}`;
}
