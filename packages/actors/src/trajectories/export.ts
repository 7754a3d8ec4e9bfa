/** Finished groups of a run, out of its journal and its groups stream, into files. */
import { messageOf } from "@muster/base";
import { controllerLogic, planOf } from "@muster/machines/controller";
import {
  bodyBytesMax,
  type ChangedSettings,
  fromGroupsBatch,
  type GroupReceipt,
  type JobConfig,
  type Section,
  type TrajectoryGroup,
} from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { replayJournal } from "../controller/journal-replay.ts";
import { fetchBody } from "../groups/fetch.ts";
import { type RefusedFile, scanTrajectories, writeTrajectories, writtenIn } from "./files.ts";
import { bytesOfGroup, sourceOf, type TrajectoryContent } from "./format.ts";

/** What was written, and what could not be. */
export interface Exported {
  readonly files: readonly string[];
  /** Groups that were written, and those that were in files of the folder already. */
  readonly groups: number;
  readonly known: number;
  /** Groups of the journal that can not be read any more, and files of the folder that can not. */
  readonly refused: readonly RefusedFile[];
}

/** Of the groups of one file: how many, and how many bytes about. */
const chunkGroups = 64;
const chunkBytes = 16 * 1024 * 1024;

/** What a journal says of groups that are still stored. */
interface Finished {
  readonly receipts: readonly GroupReceipt[];
  /** By version, as far as it was seen. */
  readonly weights: ReadonlyMap<number, readonly Section[]>;
  readonly changes: readonly ChangedSettings[] | undefined;
}

/**
 * Writes the finished groups of a run that its broker still has: those that wait for their step, and those of steps that no checkpoint covers yet. What is in
 * files of the folder already is not written again.
 *
 * @param transport - With the credentials of the controller: only those may read the journal.
 * @throws What the transport and the file system throw, and errors of the journal.
 */
export async function exportTrajectories(
  transport: Pick<Transport, "fetch" | "journal">,
  config: JobConfig,
  directory: string,
): Promise<Exported> {
  const { receipts, weights, changes } = await finishedIn(transport, config);
  const job = { ...config, changes };
  const folder = await scanTrajectories(directory, job).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return { files: [], refused: [] };
    throw error;
  });
  const isWritten = writtenIn(folder.files, { job: config.job, weights });
  const open = receipts.filter((receipt) => !isWritten(receipt));
  const files: string[] = [];
  const refused: RefusedFile[] = [...folder.refused];
  let chunk: { group: TrajectoryGroup; version: number }[] = [];
  let [newest, bytes, groups] = [0, 0, 0];
  const flush = async (): Promise<void> => {
    const [first] = chunk;
    if (!first) return;
    const named = { version: newest, sections: [...(weights.get(newest) ?? [])] };
    const { step } = first.group;
    const source = sourceOf(job, step);
    const content: TrajectoryContent = { job: config.job, source, step, weights: named, groups: chunk };
    files.push(await writeTrajectories(directory, content));
    groups += chunk.length;
    [chunk, bytes] = [[], 0];
  };
  for (const receipt of open) {
    const group = await groupOf(transport, receipt, config);
    if (typeof group === "string") {
      refused.push({ path: `group ${receipt.step}.${receipt.index}`, reason: group });
      continue;
    }
    const version = newestOf(group, receipt.version);
    const isOther = chunk[0] !== undefined && (chunk[0].group.step !== group.step || newest !== version);
    if (isOther || chunk.length >= chunkGroups || bytes >= chunkBytes) await flush();
    newest = version;
    chunk.push({ group, version: receipt.version });
    bytes += bytesOfGroup(group);
  }
  await flush();
  return { files, groups, known: receipts.length - open.length, refused };
}

async function finishedIn(transport: Pick<Transport, "journal">, config: JobConfig): Promise<Finished> {
  const weights = new Map<number, readonly Section[]>();
  let lineage = 0;
  const logic: typeof controllerLogic = {
    ...controllerLogic,
    step(snapshot, event) {
      const next = controllerLogic.step(snapshot, event);
      const now = next.snapshot.context.state.weights;
      // A job that went back counts its versions anew.
      if (now && now.lineage !== lineage)
        for (const version of weights.keys()) if (version > now.version) weights.delete(version);
      if (now) [lineage] = [now.lineage, weights.set(now.version, now.sections)];
      return next;
    },
  };
  const { snapshot } = await replayJournal(transport.journal(), planOf(config), logic);
  const { groups, history, weights: current, changes } = snapshot.context.state;
  if (current) weights.set(current.version, current.sections);
  const open = Object.values(groups).flatMap(({ receipts }) => Object.values(receipts));
  const receipts = [...Object.values(history).flat(), ...open].sort((a, b) => a.step - b.step || a.index - b.index);
  return { receipts, weights, changes };
}

async function groupOf(
  transport: Pick<Transport, "fetch">,
  { step, index, streamSeq }: GroupReceipt,
  config: JobConfig,
): Promise<TrajectoryGroup | string> {
  try {
    const stored = await fetchBody(transport, streamSeq, bodyBytesMax(config));
    const groups =
      stored.kind === "groups.batch" ? fromGroupsBatch(stored.body) : `message ${streamSeq} is ${stored.kind}`;
    if (typeof groups === "string") return groups;
    return groups.find((group) => group.step === step && group.index === index) ?? `message ${streamSeq} has it not`;
  } catch (error) {
    return messageOf(error);
  }
}

function newestOf({ trajectories }: TrajectoryGroup, least: number): number {
  return trajectories.reduce(
    (max, { segments }) => segments.reduce((most, { version }) => Math.max(most, version), max),
    least,
  );
}
