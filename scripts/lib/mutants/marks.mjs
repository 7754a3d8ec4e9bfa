/** Marks in a module: which of its blocks a test file enters, so that a mutant meets only tests that come by its place. */
import ts from "typescript";

/**
 * A piece of code that is entered as a whole: the body of a function, another block, or, with the number 0, the module itself.
 * @typedef {{ number: number, start: number, end: number, isBlock: boolean }} Place
 */

/** The places of a module, the outer ones before the inner ones. @param {string} file @param {string} source @returns {Place[]} */
function placesIn(file, source) {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  /** @type {Place[]} */
  const places = [{ number: 0, start: 0, end: source.length, isBlock: true }];
  /** @param {ts.Node} node */
  const visit = (node) => {
    const isBlock = ts.isBlock(node);
    if (isBlock || (ts.isArrowFunction(node.parent) && node.parent.body === node)) {
      const start = node.getStart(tree);
      places.push({ number: places.length, start: isBlock ? start + 1 : start, end: node.end, isBlock });
    }
    ts.forEachChild(node, visit);
  };
  ts.forEachChild(tree, visit);
  return places;
}

/** The name of the innermost place around a position. @param {string} file @param {string} source @param {number} at */
export function placeAround(file, source, at) {
  const around = placesIn(file, source).filter(({ start, end }) => start <= at && at < end);
  return `${file}#${around.at(-1)?.number ?? 0}`;
}

/** The source, which notes the name of each place that is entered in `globalThis.entered`. @param {string} file @param {string} source */
export function marked(file, source) {
  const pieces = placesIn(file, source).flatMap(({ number, start, end, isBlock }) => {
    const note = `(globalThis.entered ??= new Set()).add(${JSON.stringify(`${file}#${number}`)})`;
    if (isBlock) return [{ at: start, text: `${note};` }];
    return [
      { at: start, text: `(${note}, ` },
      { at: end, text: ")" },
    ];
  });
  let text = source;
  // From the end to the beginning, so that positions stay; of two at one position the inner one, which comes later, is put in first.
  for (const { at, text: piece } of pieces.map((piece, order) => ({ ...piece, order })).sort(later))
    text = text.slice(0, at) + piece + text.slice(at);
  return text;
}

/** @param {{ at: number, order: number }} a @param {{ at: number, order: number }} b */
function later(a, b) {
  return b.at - a.at || b.order - a.order;
}
