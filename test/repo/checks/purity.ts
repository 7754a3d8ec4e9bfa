/** Words that have no place in a pure machine, each with what to use instead. Comments and strings may say them. */
import ts from "typescript";
import type { Finding } from "./finding.ts";
import { lineOf, nodesOf } from "./repository.ts";

const replacements: ReadonlyMap<string, string> = new Map([
  ["Date", "take time from the event, as a number named …Ms"],
  ["performance", "take time from the event, as a number named …Ms"],
  ["setTimeout", "use an `after` transition: the host starts the timer"],
  ["setInterval", "use an `after` transition that re-enters its state"],
  ["setImmediate", "raise an event"],
  ["queueMicrotask", "raise an event"],
  ["Promise", "emit an effect; its outcome comes back as an event"],
  ["fetch", "emit an effect; its outcome comes back as an event"],
  ["process", "take the value from the machine's input"],
  ["crypto", "take ids from the input or the event, and randomness from randomOf(seed, …) of @muster/base"],
]);
const randomReplacement = "use randomOf(seed, …) of @muster/base";
const awaitReplacement = "emit an effect; its outcome comes back as an event";

/** Checks one file of `machines/src`. */
export function checkPurity(source: ts.SourceFile): Finding[] {
  const findings: Finding[] = [];
  for (const node of nodesOf(source)) {
    const fault = impurityOf(node);
    if (fault)
      findings.push({
        file: source.fileName,
        line: lineOf(source, node),
        message: `${fault[0]} in a machine: ${fault[1]}`,
      });
  }
  return findings;
}

function impurityOf(node: ts.Node): readonly [word: string, replacement: string] | null {
  if (ts.isAwaitExpression(node) || node.kind === ts.SyntaxKind.AsyncKeyword) return ["await", awaitReplacement];
  if (ts.isPropertyAccessExpression(node) && node.getText() === "Math.random")
    return ["Math.random", randomReplacement];
  if (!ts.isIdentifier(node) || isPropertyName(node)) return null;
  const replacement = replacements.get(node.text);
  return replacement === undefined ? null : [node.text, replacement];
}

/** True for the `x` of `a.x`, `{ x: … }` and of member declarations: those name a field, not the global. */
function isPropertyName(node: ts.Identifier): boolean {
  const { parent } = node;
  const isMember =
    ts.isPropertyAccessExpression(parent) ||
    ts.isPropertyAssignment(parent) ||
    ts.isPropertySignature(parent) ||
    ts.isPropertyDeclaration(parent) ||
    ts.isMethodDeclaration(parent) ||
    ts.isMethodSignature(parent);
  return isMember && parent.name === node;
}
