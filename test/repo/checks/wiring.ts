/** The process's own globals belong to the composition root: elsewhere, what they give comes in as a parameter. */
import ts from "typescript";
import type { Finding } from "./finding.ts";
import { lineOf, nodesOf } from "./repository.ts";

/** Programs of their own begin there, too. */
const wiringPlaces = [
  /^packages\/engine\/src\/modules\/program\.ts$/,
  /^packages\/cli\//,
  /^packages\/runtime\/src\/(lifecycle|config)\//,
  /^packages\/testkit\//,
];

const replacements: ReadonlyMap<string, string> = new Map([
  ["process.env", "take the value from the configuration"],
  ["process.exit", "throw, or return, and let the lifecycle end the process"],
  ["process.exitCode", "throw, or return, and let the lifecycle end the process"],
  ["process.on", "take an AbortSignal"],
  ["process.once", "take an AbortSignal"],
]);

/** Checks one file of a package's sources. */
export function checkWiring(source: ts.SourceFile): Finding[] {
  if (wiringPlaces.some((place) => place.test(source.fileName))) return [];
  const findings: Finding[] = [];
  for (const node of nodesOf(source)) {
    const fault = faultOf(node);
    if (fault) findings.push({ file: source.fileName, line: lineOf(source, node), message: fault });
  }
  return findings;
}

function faultOf(node: ts.Node): string | null {
  if (ts.isImportDeclaration(node) && /^["'](node:)?process["']$/.test(node.moduleSpecifier.getText())) {
    return "import of node:process: only cli and runtime/src/{lifecycle,config} may touch the process";
  }
  if (!ts.isPropertyAccessExpression(node)) return null;
  const text = node.getText();
  if (text.startsWith("console.")) return `${text}: log through the Logger that is passed in`;
  const replacement = replacements.get(text);
  return replacement === undefined ? null : `${text}: ${replacement}`;
}
