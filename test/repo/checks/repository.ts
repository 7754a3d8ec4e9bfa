/** The files of the repository, as the checks read them. Paths are from the root, with `/`. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { root } from "../../../scripts/lib/paths.mjs";

export { root };

/** Names of the folders in `packages/`. */
export const packageNames: readonly string[] = readdirSync(join(root, "packages")).sort();

/** Text of a file of the repository. */
export function textOf(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

/** True when the repository has this file or folder. */
export function has(path: string): boolean {
  return existsSync(join(root, path));
}

/** Every file that git tracks or would track. */
export function repositoryFiles(): string[] {
  const output = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  return output.split("\n").filter((path) => path !== "" && has(path));
}

/** Syntax tree of a TypeScript or JavaScript text. */
export function parse(file: string, text: string): ts.SourceFile {
  const kind = file.endsWith(".ts") ? ts.ScriptKind.TS : ts.ScriptKind.JS;
  return ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, true, kind);
}

/** Syntax trees of `packages/<name>/src`. */
export function sourcesOf(name: string): ts.SourceFile[] {
  const folder = `packages/${name}/src`;
  const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).sort();
  return files
    .filter((file) => file.endsWith(".ts"))
    .map((file) => parse(`${folder}/${file}`, textOf(`${folder}/${file}`)));
}

/** Syntax trees of the repository's own scripts. */
export function scriptSources(): ts.SourceFile[] {
  const files = readdirSync(join(root, "scripts"), { recursive: true, encoding: "utf8" }).sort();
  return files
    .filter((file) => file.endsWith(".mjs"))
    .map((file) => parse(`scripts/${file}`, textOf(`scripts/${file}`)));
}

/** Line of a node, from 1. */
export function lineOf(source: ts.SourceFile, node: ts.Node): number {
  return source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
}

/** Every node of a tree, parents first. */
export function* nodesOf(node: ts.Node): Generator<ts.Node> {
  yield node;
  const children: ts.Node[] = [];
  ts.forEachChild(node, (child) => void children.push(child));
  for (const child of children) yield* nodesOf(child);
}
