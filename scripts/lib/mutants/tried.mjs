/** Which mutants a test has detected before, kept in `.muster/mutants-tried.json`: it holds as long as the module and the test file are the same. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "./numbers.mjs";

const keptIn = join(root, ".muster/mutants-tried.json");

/** @type {Map<string, string>} */
const contents = new Map();
/** Digest of what is in it. @param {string} file */
function contentOf(file) {
  const known = contents.get(file);
  if (known !== undefined) return known;
  const text = existsSync(join(root, file)) ? readFileSync(join(root, file), "utf8") : "";
  const digest = createHash("sha256").update(text).digest("base64url");
  contents.set(file, digest);
  return digest;
}

/** @param {import("./mutants-in.mjs").Mutant} mutant @param {string} test Its file. */
function digestOf({ file, start, end, text }, test) {
  return createHash("sha256")
    .update(JSON.stringify([file, contentOf(file), start, end, text, test, contentOf(test)]))
    .digest("base64url");
}

export class Tried {
  /** Per digest the file of the test. @type {Record<string, string>} */
  #kept = existsSync(keptIn) ? JSON.parse(readFileSync(keptIn, "utf8")) : {};

  #isSaved = true;

  /** The files whose tests have detected something. */
  #files = new Set(Object.values(this.#kept));

  /** The test file that has detected it. @param {import("./mutants-in.mjs").Mutant} mutant */
  whereSeen(mutant) {
    return [...this.#files].find((file) => this.#kept[digestOf(mutant, file)] === file);
  }

  /** @param {import("./mutants-in.mjs").Mutant} mutant @param {string} file */
  keep(mutant, file) {
    this.#kept[digestOf(mutant, file)] = file;
    this.#isSaved = false;
  }

  save() {
    if (this.#isSaved) return;
    this.#isSaved = true;
    mkdirSync(dirname(keptIn), { recursive: true });
    writeFileSync(keptIn, JSON.stringify(this.#kept));
  }
}
