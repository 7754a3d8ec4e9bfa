/** What set-up did last and from which inputs, so that an unchanged step is skipped without asking any tool. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const ignoredFolders = new Set(["node_modules", "dist", "build", ".muster", ".git"]);

/**
 * Hashes files and folders by name and content.
 *
 * @param {string} base - Folder that `entries` are relative to.
 * @param {readonly string[]} entries - Files and folders; those that do not exist count as absent.
 * @param {string} [salt] - Anything else that the result depends on.
 * @returns {string} Hex digest.
 */
export function fingerprintOf(base, entries, salt = "") {
  const hash = createHash("sha256").update(salt);
  for (const file of entries.flatMap((entry) => filesUnder(base, entry)).sort()) {
    hash.update(`\0${file}\0`).update(readFileSync(join(base, file)));
  }
  return hash.digest("hex");
}

/** @param {string} base @param {string} entry @returns {string[]} */
function filesUnder(base, entry) {
  const found = statSync(join(base, entry), { throwIfNoEntry: false });
  if (found === undefined) return [];
  if (found.isFile()) return [entry];
  if (!found.isDirectory()) return [];
  const children = readdirSync(join(base, entry)).filter((name) => !ignoredFolders.has(name));
  return children.flatMap((name) => filesUnder(base, `${entry}/${name}`));
}

/** The stamp file: step name to fingerprint of the inputs it was last done with. */
export class Stamp {
  /** @type {Record<string, string>} */
  #done;
  #path;

  /** @param {string} path @param {Record<string, string>} done */
  constructor(path, done) {
    this.#path = path;
    this.#done = done;
  }

  /** A stamp that remembers nothing. @param {string} path */
  static empty(path) {
    return new Stamp(path, {});
  }

  /** The stamp of a file; empty when there is none. @param {string} path */
  static read(path) {
    return new Stamp(path, readStamp(path));
  }

  /** True when the step was done with exactly these inputs. @param {string} step @param {string} fingerprint */
  isDone(step, fingerprint) {
    return this.#done[step] === fingerprint;
  }

  /** Remembers a finished step, at once and atomically. @param {string} step @param {string} fingerprint */
  markDone(step, fingerprint) {
    this.#done = { ...this.#done, [step]: fingerprint };
    mkdirSync(dirname(this.#path), { recursive: true });
    const draft = `${this.#path}.${process.pid}.new`;
    writeFileSync(draft, `${JSON.stringify(this.#done, null, 2)}\n`);
    renameSync(draft, this.#path);
  }
}

/** @param {string} path @returns {Record<string, string>} Empty when there is none, or when it cannot be read: then everything is done again. */
function readStamp(path) {
  if (!existsSync(path)) return {};
  try {
    const value = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" && value !== null ? value : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
