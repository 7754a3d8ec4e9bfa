/** The numbers that keep the code readable: lines of a file and of a function, parameters, no `any`, no swallowed error. */
import ts from "typescript";
import type { Finding } from "./finding.ts";
import { lineOf, nodesOf } from "./repository.ts";

/** Largest allowed values. */
const limits = { fileLines: 400, functionLines: 70, parameters: 4 } as const;

/** Checks one file against the limits. */
export function checkLimits(source: ts.SourceFile): Finding[] {
  const lines = source.text.trimEnd().split("\n").length;
  const tooLong =
    lines > limits.fileLines ? [`file has ${lines} lines, at most ${limits.fileLines}: one idea per file`] : [];
  const findings = tooLong.map((message): Finding => ({ file: source.fileName, line: 0, message }));
  for (const node of nodesOf(source)) {
    for (const message of faultsOf(source, node))
      findings.push({ file: source.fileName, line: lineOf(source, node), message });
  }
  return findings;
}

function faultsOf(source: ts.SourceFile, node: ts.Node): string[] {
  if (node.kind === ts.SyntaxKind.AnyKeyword) return ["any: name the type, or take unknown and narrow it"];
  if (ts.isCatchClause(node) && node.block.statements.length === 0)
    return ["empty catch: handle the error or let it pass"];
  if (!ts.isFunctionLike(node)) return [];
  const name = nameOf(node);
  const parameters = node.parameters.filter((parameter) => parameter.name.getText(source) !== "this").length;
  const faults: string[] = [];
  if (parameters > limits.parameters)
    faults.push(`${name} has ${parameters} parameters, at most ${limits.parameters}: take an options object`);
  const lines = "body" in node && node.body && !registersTests(node) ? lineCount(source, node) : 0;
  if (lines > limits.functionLines)
    faults.push(`${name} has ${lines} lines, at most ${limits.functionLines}: split it`);
  return faults;
}

/** A function that registers tests is a list of them, not a piece of logic. */
function registersTests(node: ts.Node): boolean {
  const calls = [...nodesOf(node)].filter(ts.isCallExpression);
  return calls.some((call) => /^(it|test|describe)(\.\w+)?$/.test(call.expression.getText()));
}

function lineCount(source: ts.SourceFile, node: ts.Node): number {
  const end = source.getLineAndCharacterOfPosition(node.end).line + 1;
  return end - lineOf(source, node) + 1;
}

function nameOf(node: ts.SignatureDeclaration): string {
  if (node.name) return node.name.getText();
  return ts.isVariableDeclaration(node.parent) ? node.parent.name.getText() : "function";
}
