/**
 * One set-up at a time. The lock is a file that names its owner and that the owner touches while it lives. A lock whose owner is
 * gone, or was not touched for long (its pid may belong to another process by now), is taken over.
 */
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const pollMs = 100;
const touchMs = 2_000;

/**
 * @typedef {object} LockOptions
 * @property {string} path
 * @property {AbortSignal} signal
 * @property {(pid: number) => void} onWait - Told once, when another set-up holds the lock.
 * @property {number} [staleMs] - A lock not touched for this long has no owner; by default 60 s.
 * @property {number} [timeoutMs] - Longest wait; by default 30 minutes.
 */

/**
 * Runs work while holding the lock.
 *
 * @template T
 * @param {LockOptions} options
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 * @throws Error when the wait for another owner is longer than `timeoutMs`.
 */
export async function withLock(options, work) {
  const mine = await acquire(options);
  const touch = setInterval(() => touchFile(options.path), touchMs);
  try {
    return await work();
  } finally {
    clearInterval(touch);
    if (contentOf(options.path) === mine) rmSync(options.path, { force: true });
  }
}

/** @param {LockOptions} options */
async function acquire({ path, signal, onWait, staleMs = 60_000, timeoutMs = 30 * 60_000 }) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = JSON.stringify({ pid: process.pid, startedAtMs: Date.now() });
  let waitingSince = 0;
  while (!create(path, mine)) {
    signal.throwIfAborted();
    const theirs = contentOf(path);
    if (theirs === null) continue;
    if (isStale(path, theirs, staleMs)) {
      takeOver(path, theirs);
      continue;
    }
    if (waitingSince === 0) onWait(pidOf(theirs));
    waitingSince ||= Date.now();
    if (Date.now() - waitingSince > timeoutMs)
      throw new Error(`another set-up (pid ${pidOf(theirs)}) holds ${path} for too long`);
    await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
  return mine;
}

/** Creates the file with its content in one step, so that nobody sees it empty. @param {string} path @param {string} content */
function create(path, content) {
  const draft = `${path}.${process.pid}.new`;
  writeFileSync(draft, content);
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    return false;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Moves a dead lock aside; when a new owner came in between, gives it back. @param {string} path @param {string} seen */
function takeOver(path, seen) {
  const aside = `${path}.${process.pid}.stale`;
  try {
    renameSync(path, aside);
    if (contentOf(aside) !== seen) linkSync(aside, path);
  } catch (error) {
    // Somebody else was faster: the next round sees the new owner.
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "EEXIST") throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

/** Shows that the owner lives; a lock that somebody deleted is not brought back. @param {string} path */
function touchFile(path) {
  if (existsSync(path)) utimesSync(path, new Date(), new Date());
}

/** @param {string} path @param {string} content @param {number} staleMs */
function isStale(path, content, staleMs) {
  const touchedAtMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return touchedAtMs !== undefined && (!isAlive(pidOf(content)) || Date.now() - touchedAtMs > staleMs);
}

/** @param {number} pid */
function isAlive(pid) {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/** @param {string} content @returns {number} Pid of the owner, or NaN when the content is not a lock. */
function pidOf(content) {
  return Number(/"pid":(\d+)/.exec(content)?.[1]);
}

/** @param {string} path @returns {string | null} */
function contentOf(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** @param {unknown} error */
function codeOf(error) {
  return /** @type {NodeJS.ErrnoException} */ (error).code;
}
