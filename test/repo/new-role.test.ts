/**
 * A role is added in a fixture, over the sources as they are, and every file that knows of roles is checked by the compiler with it: what it names, and what
 * the fixture has, is all that a new role touches. Takes 40 s on a busy host, since the sources of all packages are read as one program.
 */
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Most files that a new role may touch, its own among them. */
const filesMax = 8;

/** What adds the role `judge`: a file anew, or text that goes before another one that is there. */
const fixture: Readonly<
  Record<string, { readonly anew: string } | readonly { readonly before: string; readonly add: string }[]>
> = {
  "packages/protocol/src/role-table.ts": [
    {
      before: "} as const satisfies Readonly<Record<string, RoleTraits>>;",
      add: '  judge: { ...{ title: "judge", holdsWeights: true, sharesHost: false, keepsFiles: false, readsGroups: true, drawsGroups: false }, ...{ leavesLast: false, patience: 1.5, hasRanks: true } },\n',
    },
  ],
  "packages/actors/src/judge/judge-work.ts": {
    anew: `import type { Ports } from "../ports.ts";
      import { rolloutRoleOn } from "../rollout/rollout-work.ts";
      import type { Role } from "../replica/work.ts";
      /** The role of a judge. */
      export const judgeRoleOn = (ports: Ports): Role => ({ ...rolloutRoleOn(ports), role: "judge" });`,
  },
  "packages/actors/src/index.ts": [
    { before: "export { findDevices }", add: 'export { judgeRoleOn } from "./judge/judge-work.ts";\n' },
  ],
};

/** Where processes are made of roles: the list of commands, the command that starts one, and the simulator. */
const makers = [
  "packages/cli/src/commands/list.ts",
  "packages/cli/src/commands/replicas.ts",
  "packages/sim/src/cluster/cluster.ts",
];

/** Files in which a role may be wrong: the others have no word of any. */
const ofRoles = /\b(policy|rollout|checkpoint|capacity|\w*[rR]oles?)\b/;

/** The text of a file with the fixture. Fails where the sources have moved on from it. */
function patched(path: string, text: string | undefined): string | undefined {
  const change = fixture[path];
  if (!change) return text;
  if ("anew" in change) return change.anew;
  return change.reduce((all, { before, add }) => {
    expect(all.split(before), `${path} has one place for ${add}`).toHaveLength(2);
    return all.replace(before, `${add}${before}`);
  }, text ?? "");
}

/** All sources as one program, with the files of the fixture that are named. */
function programWith(files: readonly string[]): ts.Program {
  const { compilerOptions } = ts.readConfigFile(join(root, "tsconfig.base.json"), ts.sys.readFile).config;
  const given = { ...compilerOptions, composite: false, declaration: false, declarationMap: false, noEmit: true };
  const conditions = { ...given, lib: [...compilerOptions.lib, "DOM"], customConditions: ["source"] };
  const { options } = ts.convertCompilerOptionsFromJson(conditions, root);
  const host = ts.createCompilerHost(options);
  const read = host.readFile.bind(host);
  const isOf = (path: string): boolean => files.includes(path.slice(root.length));
  host.readFile = (path) => (isOf(path) ? patched(path.slice(root.length), read(path)) : read(path));
  const exists = host.fileExists.bind(host);
  host.fileExists = (path) => isOf(path) || exists(path);
  const folders = new Set(files.map((file) => dirname(join(root, file))));
  const folderExists = host.directoryExists?.bind(host);
  host.directoryExists = (path) => folders.has(path) || folderExists?.(path) === true;
  host.getSourceFile = (path, version) => {
    const text = host.readFile(path);
    return text === undefined ? undefined : ts.createSourceFile(path, text, version);
  };
  const entryPoints = readdirSync(join(root, "packages")).flatMap((name) =>
    ["index.ts", "internal.ts", "main.ts"].map((entry) => join(root, "packages", name, "src", entry)),
  );
  return ts.createProgram(entryPoints.filter(exists), options, host);
}

/** Files of which the compiler complains. */
function faultyOf(program: ts.Program): readonly string[] {
  const own = program.getSourceFiles().filter(({ fileName, text }) => {
    return fileName.startsWith(join(root, "packages/")) && !fileName.endsWith(".d.ts") && ofRoles.test(text);
  });
  return own
    .filter((file) => program.getSemanticDiagnostics(file).length > 0)
    .map((file) => file.fileName.slice(root.length));
}

test("a new role is a row of the table, its own files, and a line where processes are made of roles", {
  timeout: 180_000,
}, () => {
  const files = Object.keys(fixture);
  const forgotten = faultyOf(programWith(files));
  expect(forgotten.toSorted(), "the compiler names where a line is missing, and nothing else").toEqual(makers);
  expect([...files, ...makers].length).toBeLessThanOrEqual(filesMax);
});
