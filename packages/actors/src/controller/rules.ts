/**
 * The rules by which this program folds a journal: a digest of the files of all modules that decide, as they were loaded. Another program
 * may come from the same inputs to another state, so it must know that it is another one (decision 0029).
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { baseFolder } from "@muster/base";
import { machinesFolder } from "@muster/machines";
import type { Rules } from "@muster/machines/controller";
import { protocolFolder } from "@muster/protocol";

/** Files of one name. */
export interface RuleFolder {
  readonly name: string;
  readonly url: URL;
  /** Which of its modules; default all. */
  readonly only?: RegExp;
}

/** What a replay goes through, but for the libraries. */
const folders: readonly RuleFolder[] = [
  { name: "base", url: baseFolder },
  { name: "protocol", url: protocolFolder },
  { name: "machines", url: machinesFolder },
  { name: "actors", url: new URL(".", import.meta.url), only: /^(journal-replay|open-ends)\./ },
];

/** The rules of this program. */
export function rulesOfProgram(): Rules {
  const { version: build } = versionIn(new URL("../../package.json", import.meta.url));
  const library = versionIn(createRequire(machinesFolder).resolve("xstate/package.json"));
  return { digest: digestOfModules(folders, `xstate ${library.version}`), build };
}

/**
 * Digest of the modules in folders, 32 hexadecimal digits: of their text, without comments on lines of their own, indentation and empty lines.
 * Where the folders lie does not count.
 */
export function digestOfModules(of: readonly RuleFolder[], besides = ""): string {
  const hash = createHash("sha256").update(besides);
  for (const { name, url, only = /./ } of of) {
    const modules = readdirSync(url, { recursive: true, encoding: "utf8" })
      .map((path) => path.replaceAll("\\", "/"))
      .filter((path) => /(?<!\.d)\.[cm]?[jt]s$/.test(path) && only.test(path))
      .sort();
    for (const path of modules) {
      const text = codeOf(readFileSync(new URL(path, url), "utf8"));
      hash.update(`\n${name}/${path} ${text.length}\n${text}`);
    }
  }
  return hash.digest("hex").slice(0, 32);
}

function codeOf(text: string): string {
  const code = text.replace(/^\s*\/\*[\s\S]*?\*\/\s*$/gm, "").replace(/^\s*\/\/.*$/gm, "");
  return code
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join("\n");
}

function versionIn(packageFile: URL | string): { readonly version: string } {
  return JSON.parse(readFileSync(packageFile, "utf8")) as { version: string };
}
