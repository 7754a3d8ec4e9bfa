/**
 * The checkpoint store: one root folder of one job, in which one writer saves whole versions, or several write the shards of one. What counts is on the
 * disk; the store itself only remembers what it has hashed.
 */
import { join } from "node:path";
import { hasCode, type MusterError, messageOf } from "@muster/base";
import { type CheckpointContent, checkNumbers, isSameState, isSameVersion, planConfig, planFiles } from "./content.ts";
import { errors } from "./errors.ts";
import type { CheckpointFs } from "./files.ts";
import { gathered, type HashPieces } from "./hash/gathered.ts";
import { type Listing, listClaimed, listVerified, orReadFailed } from "./listing.ts";
import { checkName } from "./names.ts";
import { nodeFs } from "./node-files.ts";
import { type CheckpointInfo, type LoadedCheckpoint, loadFolder } from "./read.ts";
import {
  isBefore,
  newestFirst,
  planRetention,
  type RetentionRule,
  type SparedVersion,
  type SupersededCheckpoint,
} from "./retention.ts";
import { serialQueue } from "./serial.ts";
import { hasSet, removeOldSets, type SetOptions, sealSet, writeShard } from "./shard-set.ts";
import { planIndex, planShard } from "./sharded.ts";
import { signatureOf } from "./signature.ts";
import { sweep } from "./sweep.ts";
import { makeTemporary, orGone, type Place, pointLatest, removeFolder, removeTree, writeFolder } from "./write.ts";
import { bytesOf, writeFault } from "./write-fault.ts";

/** Options of a checkpoint store. */
export interface CheckpointStoreOptions {
  /** Folder of one job's checkpoints; made when absent, with its parents. */
  readonly root: string;
  /** Newest checkpoints that retention leaves, ≥ 1. */
  readonly keep: number;
  /** Newest versions that retention leaves while nothing pinned is here: until a writer hears which one counts, each may. Default `keep`. */
  readonly keepUnpinned?: number;
  /** Wall time, for `createdAt`. */
  readonly now: () => Date;
  /** The disk; by default that of this host. */
  readonly fs?: CheckpointFs;
  /** Hashes pieces of files, several at once, in less time than one by one; by default a thread does, one by one. */
  readonly hashPieces?: HashPieces | undefined;
  /** Age from which `sweep` takes a leftover for torn; default one hour. */
  readonly graceMs?: number;
}

/** What a save reports. */
export interface SavedCheckpoint {
  readonly name: string;
  /** Absolute path of the folder. */
  readonly path: string;
  /** Sha-256 of the manifest file, in hex. */
  readonly manifestDigest: string;
  /** Size of all files. */
  readonly bytes: number;
  /**
   * Ends when what retention does not keep is removed, and never fails. What went wrong, in words: older ones that could not be removed. Whatever this
   * store is to write next waits for it.
   */
  readonly cleared: Promise<readonly string[]>;
}

/**
 * Durable checkpoints of one job. Complete and verified, or invisible (reliability S25): what `list`, `latest` and `load` show has a
 * manifest, and every file has the size and the sha-256 that it says.
 */
export interface CheckpointStore {
  /**
   * Writes a version, flushed and read back, then lets `latest` name it. What retention does not keep is removed after that: to remove a large file takes
   * a while, and who waits for the checkpoint need not wait for it. Saving the same version again gives the checkpoint that is there. A failure leaves
   * earlier checkpoints untouched; trying again is safe.
   *
   * @throws MUSTER_ERR_CHECKPOINT_CONTENT_INVALID, MUSTER_ERR_CHECKPOINT_STALE, MUSTER_ERR_CHECKPOINT_FENCED,
   * MUSTER_ERR_CHECKPOINT_FOREIGN, MUSTER_ERR_CHECKPOINT_ABORTED, MUSTER_ERR_CHECKPOINT_WRITE_FAILED, MUSTER_ERR_CHECKPOINT_DISK_FULL,
   * MUSTER_ERR_CHECKPOINT_BUSY
   */
  save(content: CheckpointContent, signal: AbortSignal): Promise<SavedCheckpoint>;
  /**
   * Writes some shards of a version that several stores write together, all in one folder, and makes them durable. A shard that is there already is not
   * written again. Nothing shows before {@link seal}.
   *
   * @param shards - Which, counted from 1, and of how many.
   * @returns The size of their files.
   * @throws As `save`.
   */
  saveShards(
    content: CheckpointContent,
    shards: { readonly indices: readonly number[]; readonly of: number },
    signal: AbortSignal,
  ): Promise<{ readonly bytes: number }>;
  /**
   * Makes a checkpoint of the shards of a version, all of which are durable; then as `save`. No byte of the sections is read, only their lengths.
   *
   * @throws MUSTER_ERR_CHECKPOINT_SHARDS_MISSING when a shard is not in the folder; as `save`.
   */
  seal(content: CheckpointContent, of: number, signal: AbortSignal): Promise<SavedCheckpoint>;
  /**
   * True while the shards of a version lie in a folder of their own: not while none is written, nor when they are sealed or removed.
   *
   * @throws MUSTER_ERR_CHECKPOINT_READ_FAILED
   */
  isOpen(content: CheckpointContent, of: number): Promise<boolean>;
  /** Complete and verified checkpoints, newest first. Files that did not change since they were last hashed are not hashed again. */
  list(): Promise<readonly CheckpointInfo[]>;
  /** The newest complete and verified checkpoint, or `null`. */
  latest(): Promise<CheckpointInfo | null>;
  /**
   * Reads a checkpoint into memory; verifies every size and sha-256. Retention may remove the folder meanwhile.
   *
   * @throws MUSTER_ERR_CHECKPOINT_NAME_INVALID, MUSTER_ERR_CHECKPOINT_MISSING, MUSTER_ERR_CHECKPOINT_CORRUPT, MUSTER_ERR_CHECKPOINT_READ_FAILED
   */
  load(name: string, signal?: AbortSignal): Promise<LoadedCheckpoint>;
  /** Keeps retention of this store away from a checkpoint and from all newer ones. @returns Ends that; harmless when called twice. */
  pin(name: string): () => void;
  /** Has retention of this store leave one version more, however old it is; `null` for none. The last call counts. */
  spare(version: SparedVersion | null): void;
  /**
   * Lets retention of this store remove these although they are newer than what is pinned; those among the newest `keep` only when the disk is full. The
   * last call counts.
   */
  supersede(copies: readonly SupersededCheckpoint[]): void;
  /**
   * Removes what interrupted saves and removals left behind, and sets of shards to which none was added, once older than the grace, which is to be
   * longer than any write. Saves do the same when they are durable, and when the disk is full. The age is by the disk's own clock: hosts that share
   * it may have others. A folder whose newest checkpoint is of another job than `job` is left alone. @returns Names of what it removed.
   */
  sweep(job?: string): Promise<readonly string[]>;
}

interface StoreState extends Listing {
  readonly options: CheckpointStoreOptions;
  readonly pins: Map<symbol, string>;
  spared: SparedVersion | null;
  superseded: readonly SupersededCheckpoint[];
}

const waitingMax = 8;

/** Opens a store. @throws MUSTER_ERR_CHECKPOINT_OPTION_INVALID, or the system's error when the root cannot be made. */
export async function openCheckpointStore(options: CheckpointStoreOptions): Promise<CheckpointStore> {
  if (!Number.isSafeInteger(options.keep) || options.keep < 1) {
    throw errors.CheckpointOptionInvalid({ field: "keep", value: options.keep, fix: "a whole number of at least 1" });
  }
  const fs = options.fs ?? nodeFs;
  const place = { fs, root: await fs.prepareRoot(options.root), hash: gathered(options.hashPieces) };
  const state: StoreState = {
    place,
    options,
    pins: new Map(),
    spared: null,
    superseded: [],
    hashed: new Map(),
  };
  const inTurn = serialQueue(waitingMax);
  return {
    save: (content, signal) => untilCleared(inTurn, () => save(state, content, signal)),
    saveShards: (content, shards, signal) => inTurn(() => saveShards(state, content, { ...shards, signal })),
    seal: (content, of, signal) => untilCleared(inTurn, () => seal(state, { content, of, signal })),
    isOpen: (content, of) => orReadFailed(place.root, hasSet(place, content, of)),
    list: () => listVerified(state),
    latest: async () => (await listVerified(state))[0] ?? null,
    load: async (name, signal) => loadFolder({ ...place, name }, signal),
    pin: (name) => pin(state, name),
    spare: (version) => {
      state.spared = version;
    },
    supersede: (copies) => {
      state.superseded = copies;
    },
    sweep: (job) =>
      inTurn(async () => {
        const [newest] = job === undefined ? [] : await listClaimed(state);
        return newest && newest.job !== job ? [] : await sweep(state.place, options.graceMs);
      }),
  };
}

/** Runs a save in its turn, which lasts until what is not kept is removed. @returns What was saved, as soon as it is. */
function untilCleared(
  inTurn: ReturnType<typeof serialQueue>,
  work: () => Promise<SavedCheckpoint>,
): Promise<SavedCheckpoint> {
  return new Promise((resolve, reject) => {
    inTurn(async () => {
      const saved = await work();
      resolve(saved);
      await saved.cleared;
    }).catch(reject);
  });
}

async function save(state: StoreState, content: CheckpointContent, signal: AbortSignal): Promise<SavedCheckpoint> {
  checkNumbers(content);
  planFiles(content);
  const verified = await listVerified(state, signal);
  const existing = findSaved(verified, content, (info) => isSameVersion(info, content));
  return settle(state, existing ?? (await writeWithRoom(state, { content, signal, verified })), verified);
}

/** A checkpoint is durable: `latest` names the newest, and what is not kept goes. */
async function settle(
  state: StoreState,
  info: CheckpointInfo,
  verified: readonly CheckpointInfo[],
): Promise<SavedCheckpoint> {
  const { name, path, manifestDigest, bytes } = info;
  state.hashed.set(name, { signature: await orReadFailed(name, signatureOf(state.place, name, info)), info });
  const newest = [info, ...verified].sort(newestFirst)[0] ?? info;
  try {
    await pointLatest(state.place, newest.name);
  } catch (error) {
    throw errors.CheckpointWriteFailed(
      { name, reason: messageOf(error), leftover: "the checkpoint itself is complete" },
      error,
    );
  }
  return { name, path, manifestDigest, bytes, cleared: retain(state, info) };
}

async function saveShards(
  state: StoreState,
  content: CheckpointContent,
  { indices, of, signal }: { readonly indices: readonly number[]; readonly of: number; readonly signal: AbortSignal },
): Promise<{ readonly bytes: number }> {
  checkNumbers(content);
  const shards = indices.map((index) => ({ index, plans: planShard(content, index, of) }));
  const bytes = bytesOf(shards.flatMap(({ plans }) => plans));
  if (await findState(state, content, signal)) return { bytes };
  try {
    signal.throwIfAborted();
    for (const shard of shards) await writeShard(state.place, shard, { content, of, signal });
    return { bytes };
  } catch (error) {
    throw await shardFault(state, { content, neededBytes: bytes, signal }, "other shards stay", error);
  }
}

/** A checkpoint of this state. Nothing is hashed where the manifests say already that there is none and that one may be written. */
async function findState(
  state: StoreState,
  content: CheckpointContent,
  signal: AbortSignal,
): Promise<CheckpointInfo | undefined> {
  const isIt = (info: CheckpointInfo): boolean => isSameState(info, content);
  const claimed = await listClaimed(state);
  if (!claimed.some(isIt) && olderFlaw(claimed[0], content) === null) return undefined;
  return findSaved(await listVerified(state, signal), content, isIt);
}

async function seal(state: StoreState, options: SetOptions): Promise<SavedCheckpoint> {
  const { content, signal } = options;
  checkNumbers(content);
  const isSealed = (info: CheckpointInfo): boolean => isSameState(info, content);
  const verified = await listVerified(state, signal);
  const existing = findSaved(verified, content, isSealed);
  return settle(state, existing ?? (await sealNew(state, options, isSealed)), verified);
}

async function sealNew(
  state: StoreState,
  options: SetOptions,
  isSealed: (info: CheckpointInfo) => boolean,
): Promise<CheckpointInfo> {
  try {
    return await sealSet(state.place, state.options.now(), options);
  } catch (error) {
    // Somebody else may have sealed it meanwhile.
    const sealed = (await listVerified(state)).find(isSealed);
    if (sealed) return sealed;
    const { content, of, signal } = options;
    const neededBytes = bytesOf([planConfig(content), planIndex(content, of)]);
    throw await shardFault(state, { content, neededBytes, signal }, "the shards stay", error);
  }
}

/** Makes the error of a failed write; on a full disk sets of older versions, which others may still seal until then, make room for the next try. */
async function shardFault(
  { place, options }: StoreState,
  tried: Parameters<typeof writeFault>[1],
  leftover: string,
  error: unknown,
): Promise<unknown> {
  const fault = await writeFault(place, tried, leftover, error);
  if (!hasCode(fault, "MUSTER_ERR_CHECKPOINT_DISK_FULL")) return fault;
  // The disk is full already; what can not be removed says nothing more.
  await removeOldSets(place, tried.content).catch(() => {});
  await sweep(place, options.graceMs).catch(() => {});
  return fault;
}

/** Writes a new folder; on a full disk what is not kept makes room, once. */
async function writeWithRoom(
  state: StoreState,
  {
    content,
    signal,
    verified,
  }: Pick<SetOptions, "content" | "signal"> & { readonly verified: readonly CheckpointInfo[] },
): Promise<CheckpointInfo> {
  try {
    return await writeNew(state, content, signal);
  } catch (error) {
    if (!hasCode(error, "MUSTER_ERR_CHECKPOINT_DISK_FULL")) throw error;
    const useless = planRetention(verified, { ...ruleOf(state), isFull: true });
    const swept = await sweep(state.place, state.options.graceMs).catch(() => []);
    if (useless.length + swept.length === 0) throw error;
    for (const name of useless) await orReadFailed(name, orGone(removeFolder(state.place, name)));
    return writeNew(state, content, signal);
  }
}

/** Writes a new folder; on failure says so and takes away what it had begun. */
async function writeNew(state: StoreState, content: CheckpointContent, signal: AbortSignal): Promise<CheckpointInfo> {
  const { place, options } = state;
  let temporary: string | undefined;
  try {
    signal.throwIfAborted();
    temporary = join(place.root, await makeTemporary(place, content));
    return await writeFolder(place, temporary, { content, createdAt: options.now(), signal });
  } catch (error) {
    const leftover = temporary === undefined ? "nothing was written" : await discard(place, temporary);
    throw await writeFault(place, { content, neededBytes: bytesOf(planFiles(content)), signal }, leftover, error);
  }
}

async function discard({ fs }: Place, path: string): Promise<string> {
  try {
    await removeTree(fs, path);
    return "nothing is left behind";
  } catch (error) {
    return `the temporary folder stays until it is swept (${messageOf(error)})`;
  }
}

/** What is saved already. @throws What {@link olderFlaw} says, when it is not. */
function findSaved(
  verified: readonly CheckpointInfo[],
  content: CheckpointContent,
  isIt: (info: CheckpointInfo) => boolean,
): CheckpointInfo | undefined {
  const existing = verified.find(isIt);
  const flaw = existing ? null : olderFlaw(verified[0], content);
  if (flaw) throw flaw;
  return existing;
}

/** A checkpoint of another job, of an ended term or from before the newest one would put `latest` back (reliability S27). */
function olderFlaw(newest: CheckpointInfo | undefined, content: CheckpointContent): MusterError | null {
  if (newest === undefined) return null;
  const { job, lineage, step, term } = content;
  if (newest.job !== job) return errors.CheckpointForeign({ job, found: newest.job });
  if (term < newest.term) return errors.CheckpointFenced({ term, newestTerm: newest.term });
  return isBefore(content, newest) ? errors.CheckpointStale({ lineage, step, newest: newest.name }) : null;
}

/** Removes what is not kept; never what is about to be reported as `saved`, though another writer may have made newer ones since. */
async function retain(state: StoreState, saved: CheckpointInfo): Promise<readonly string[]> {
  const warnings: string[] = [];
  try {
    const names = planRetention(await listVerified(state), { ...ruleOf(state), saved: saved.name });
    for (const name of names) await orGone(removeFolder(state.place, name));
    await removeOldSets(state.place, saved);
    await sweep(state.place, state.options.graceMs);
  } catch (error) {
    // The new checkpoint is durable whatever happens here; the next save tries again.
    warnings.push(`older checkpoints could not be removed: ${messageOf(error)}`);
  }
  return warnings;
}

const ruleOf = ({ options: { keep, keepUnpinned }, pins, spared, superseded }: StoreState): RetentionRule => ({
  ...{ keep, keepUnpinned, spared, superseded },
  pinned: new Set(pins.values()),
});

function pin({ pins }: StoreState, name: string): () => void {
  checkName(name);
  const key = Symbol(name);
  pins.set(key, name);
  return () => void pins.delete(key);
}
