/** Folders are made one by one: Node's recursive `mkdir` never returns where none can be made, as in /proc, and the process hears no signal. */
import ts from "typescript";
import type { Finding } from "./finding.ts";
import { lineOf, nodesOf } from "./repository.ts";

/** Checks one file of a package's sources. */
export function checkFolders(source: ts.SourceFile): Finding[] {
  const calls = [...nodesOf(source)].filter(ts.isCallExpression);
  return calls
    .filter((call) => /(?:^|\.)mkdir(?:Sync)?$/.test(call.expression.getText()))
    .filter((call) => call.arguments.some((argument) => /\brecursive\b/.test(argument.getText())))
    .map((call) => ({
      file: source.fileName,
      line: lineOf(source, call),
      message:
        "recursive mkdir never returns in /proc: use makeFolderSync of @muster/runtime, or folderMaker of @muster/base",
    }));
}
