/**
 * Documents whose commands are pasted. A `sh` block is run; a `console` block has commands behind `$ ` and what they print, in which `…` stands for
 * anything, and alone on a line for any lines. Comments before a block, which readers do not see, say the rest: `file: NAME`, `exit code: N`, and
 * `not pasted: REASON` for what cannot be run here, `beside a job: NAME` for the commands of a second terminal.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** One fenced block of a document. */
interface Block {
  readonly language: string;
  readonly text: string;
  /** Line of its first fence, from 1. */
  readonly line: number;
  /** Its comment: `file`, `exit code`, `not pasted` or `beside a job`, and what is said behind the colon. */
  readonly marks: ReadonlyMap<string, string>;
}

/** One command, or several of one `sh` block. */
export interface Paste {
  /** `README.md:12`. */
  readonly place: string;
  readonly script: string;
  readonly exitCode: number;
  /** What it prints; `null` where nothing is said about it. */
  readonly printed: string | null;
  /** Files that are written before it. */
  readonly files: ReadonlyMap<string, string>;
  /** The job that has to run meanwhile. */
  readonly beside: string | null;
}

/** A document, as it is pasted. */
interface PastedDocument {
  readonly pastes: readonly Paste[];
  /** Blocks with commands that are not run, each with its place and the reason. */
  readonly leftOut: readonly { readonly place: string; readonly reason: string }[];
}

const commandLanguages = ["sh", "console"];

/** Reads a document. Pure. @throws for a comment that nobody knows */
export function pastedDocument(name: string, text: string): PastedDocument {
  const pastes: Paste[] = [];
  const leftOut: { place: string; reason: string }[] = [];
  const files = new Map<string, string>();
  for (const block of blocksOf(name, text)) {
    const place = `${name}:${block.line}`;
    const file = block.marks.get("file");
    const reason = block.marks.get("not pasted");
    if (file !== undefined) files.set(file, block.text);
    else if (reason !== undefined) leftOut.push({ place, reason });
    else if (commandLanguages.includes(block.language)) {
      const exitCode = Number(block.marks.get("exit code") ?? 0);
      const beside = block.marks.get("beside a job") ?? null;
      for (const { script, printed } of commandsOf(block)) {
        pastes.push({ place, script, exitCode, printed, files: new Map(files), beside });
        files.clear();
      }
    }
  }
  return { pastes, leftOut };
}

function blocksOf(name: string, text: string): readonly Block[] {
  const found = text.matchAll(/(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n([\s\S]*?)^```$/gm);
  return [...found].map((match) => {
    const [whole, mark, language = "", content = ""] = match;
    const line = text.slice(0, match.index).split("\n").length + (mark === undefined ? 0 : 1);
    return { language, text: content, line, marks: markOf(mark, `${name}:${line}`, whole) };
  });
}

function markOf(mark: string | undefined, place: string, whole: string): ReadonlyMap<string, string> {
  if (mark === undefined) return new Map();
  const [, kind, value] = /^(file|exit code|not pasted|beside a job): (.+)$/.exec(mark) ?? [];
  if (kind === undefined || value === undefined)
    throw new Error(`${place}: the comment "${mark}" says nothing that is known (${whole.slice(0, 60)})`);
  return new Map([[kind, value]]);
}

function commandsOf({
  language,
  text,
}: Block): readonly { readonly script: string; readonly printed: string | null }[] {
  if (language === "sh") return [{ script: text, printed: null }];
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [script = "", ...printed] = part.trimEnd().split("\n");
      return { script, printed: printed.join("\n") };
    });
}

/** A shell that keeps its folder and its variables from one paste to the next, as a terminal does. */
export class Terminal {
  readonly #state: string;
  readonly #env: NodeJS.ProcessEnv;
  #folder: string;

  /** @param home - Where it starts; `state` is a folder of its own. */
  constructor(home: string, state: string, env: NodeJS.ProcessEnv) {
    this.#folder = home;
    this.#env = env;
    this.#state = state;
    mkdirSync(state, { recursive: true });
    writeFileSync(join(state, "variables"), "");
  }

  /** Where a command of a second terminal runs: the same folder, with the variables that were set so far. */
  get place(): { readonly variables: string; readonly folder: string; readonly env: NodeJS.ProcessEnv } {
    return { variables: join(this.#state, "variables"), folder: this.#folder, env: this.#env };
  }

  /** Writes the files of a paste and runs it. @returns How it ended, and all that it printed. */
  run({ script, files }: Pick<Paste, "script" | "files">): { readonly code: number | null; readonly said: string } {
    for (const [name, text] of files) writeFileSync(join(this.#folder, name), text);
    const variables = join(this.#state, "variables");
    const folder = join(this.#state, "folder");
    const keep = `rc=$?; export -p > "${variables}"; pwd > "${folder}"; exit $rc`;
    const { status, stdout } = spawnSync(
      "bash",
      ["-c", `. "${variables}"; exec 2>&1; trap '${keep}' EXIT; set -e\n${script}`],
      {
        cwd: this.#folder,
        env: this.#env,
        encoding: "utf8",
        timeout: 120_000,
      },
    );
    this.#folder = readFileSync(folder, "utf8").trim();
    return { code: status, said: stdout };
  }
}

/** Whether what was printed is what a document says. Pure. */
export function isPrinted(wanted: string, said: string): boolean {
  const lines = wanted
    .split("\n")
    .map((line) => (line === "…" ? "[\\s\\S]*?" : `${line.split("…").map(escaped).join("[^\\n]*?")}\\n`));
  return new RegExp(`^${lines.join("")}`, "m").test(`${said.trimEnd()}\n`);
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
