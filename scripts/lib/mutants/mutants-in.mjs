/** The mutants of a module: each is one small change of its code. */
import ts from "typescript";

/**
 * One change: the characters from `start` to `end` become `text`; `whole` is the expression or the statement around it that can be chosen at run time.
 * @typedef {{ file: string, start: number, end: number, text: string, whole: { start: number, end: number, isStatement: boolean }, line: number, what: string }} Mutant
 */

/** @type {ReadonlyMap<ts.SyntaxKind, string>} */
const operators = new Map([
  [ts.SyntaxKind.LessThanToken, "<="],
  [ts.SyntaxKind.LessThanEqualsToken, "<"],
  [ts.SyntaxKind.GreaterThanToken, ">="],
  [ts.SyntaxKind.GreaterThanEqualsToken, ">"],
  [ts.SyntaxKind.EqualsEqualsEqualsToken, "!=="],
  [ts.SyntaxKind.ExclamationEqualsEqualsToken, "==="],
  [ts.SyntaxKind.AmpersandAmpersandToken, "||"],
  [ts.SyntaxKind.BarBarToken, "&&"],
  [ts.SyntaxKind.AsteriskToken, "/"],
]);

/** Between times, and beside a size that somebody chose, one more or less is nobody's decision: the comparison is turned round there. @type {ReadonlyMap<ts.SyntaxKind, string>} */
const turned = new Map([
  [ts.SyntaxKind.LessThanToken, ">="],
  [ts.SyntaxKind.LessThanEqualsToken, ">"],
  [ts.SyntaxKind.GreaterThanToken, "<="],
  [ts.SyntaxKind.GreaterThanEqualsToken, "<"],
]);

/**
 * Lines that are left as they are, from 1: those after a line `// no mutant: <reason>`. A change there changes nothing that anybody could see.
 *
 * @param {string} source
 */
function markedLines(source) {
  return new Set(source.split("\n").flatMap((line, i) => (/^ *\/\/ no mutant: \S/.test(line) ? [i + 2] : [])));
}

/** @param {string} file @param {string} source @returns {Mutant[]} */
export function mutantsIn(file, source) {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  /** @type {Mutant[]} */
  const mutants = [];
  const unseen = markedLines(source);
  /** @param {ts.Node} node @param {ts.Node} around @param {string} text */
  const add = (node, around, text) => {
    const start = node.getStart(tree);
    const line = tree.getLineAndCharacterOfPosition(start).line + 1;
    if (unseen.has(line)) return;
    mutants.push({
      file,
      start,
      end: node.end,
      text,
      whole: { start: around.getStart(tree), end: around.end, isStatement: ts.isStatement(around) },
      line,
      what: `${clip(node.getText(tree))} -> ${clip(text || "nothing")}`,
    });
  };
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || isForPeople(node, tree)) return;
    const text = changed(node, tree);
    if (text !== null) {
      const condition = ts.isIfStatement(node) ? node.expression : node;
      add(ts.isBinaryExpression(node) ? node.operatorToken : condition, condition, text);
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return mutants;
}

/** What stands in place of a node, or of its operator or condition; `null` where nothing is changed. @param {ts.Node} node @param {ts.SourceFile} tree */
function changed(node, tree) {
  if (ts.isBinaryExpression(node)) {
    const isCoarse = /Ms\b|\b\d[\d_]+\b/.test(node.getText(tree));
    return (isCoarse && turned.get(node.operatorToken.kind)) || (operators.get(node.operatorToken.kind) ?? null);
  }
  if (ts.isIfStatement(node)) return `!(${node.expression.getText(tree)})`;
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
    return node.operand.getText(tree);
  if (node.kind === ts.SyntaxKind.TrueKeyword) return "false";
  if (node.kind === ts.SyntaxKind.FalseKeyword) return "true";
  if (ts.isNumericLiteral(node) && ts.isPropertyAssignment(node.parent) && node.parent.name === node) return null;
  if (ts.isNumericLiteral(node) && (isOfScale(node.parent) || isNothingYet(node.parent))) return null;
  // From ten on a number is a size that somebody chose, and one more would be as right: ten times as many is as good as no bound.
  if (ts.isNumericLiteral(node))
    return Number(node.text) < 10 ? `(${node.getText(tree)} + 1)` : `(${node.getText(tree)} * 10)`;
  const isCall =
    ts.isExpressionStatement(node) && (ts.isCallExpression(node.expression) || ts.isAwaitExpression(node.expression));
  return isCall && !node.getText(tree).startsWith("super(") ? "" : null;
}

/** A line of the log, or a sentence: how people are told something is not what is decided. How long what they are told may be, is. @param {ts.Node} node @param {ts.SourceFile} tree */
function isForPeople(node, tree) {
  if (ts.isTemplateExpression(node) && !node.getText(tree).includes(".slice("))
    return [node.head, ...node.templateSpans.map(({ literal }) => literal)].some(({ text }) =>
      / [a-z]|[a-z] /.test(text),
    );
  return ts.isExpressionStatement(node) && /^(this\.)?#?(options\.)?logger\.\w+\(/.test(node.getText(tree));
}

/** Buckets of a histogram and the like: where its steps are is nobody's decision. @param {ts.Node} list */
function isOfScale(list) {
  return ts.isArrayLiteralExpression(list) && list.elements.length >= 5 && list.elements.every(ts.isNumericLiteral);
}

/** What stands for no value yet, in a variable or beside a comparison: below zero, however far. @param {ts.Node} node */
function isNothingYet(node) {
  if (!ts.isPrefixUnaryExpression(node)) return false;
  const { parent } = node;
  if (!ts.isBinaryExpression(parent) || parent.operatorToken.kind !== ts.SyntaxKind.QuestionQuestionToken)
    return ts.isVariableDeclaration(parent);
  const around = ts.isParenthesizedExpression(parent.parent) ? parent.parent.parent : parent.parent;
  return ts.isBinaryExpression(around) && turned.has(around.operatorToken.kind);
}

/** @param {string} text */
function clip(text) {
  const line = text.replace(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 57)}...` : line;
}
