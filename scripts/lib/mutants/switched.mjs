/** A module with all of its mutants in it, each behind its number: `globalThis.mutants.isOn(17)` says at run time whether it is the one that is tried. */

/**
 * @param {string} file
 * @param {string} source
 * @param {readonly import("./mutants-in.mjs").Mutant[]} mutants Of this module.
 * @param {number} first The number of the first one; the others follow in their order.
 */
export function switched(file, source, mutants, first) {
  const outerFirst = mutants
    .map((mutant, i) => ({ mutant, number: first + i }))
    .sort((a, b) => a.mutant.whole.start - b.mutant.whole.start || b.mutant.whole.end - a.mutant.whole.end);
  /** The text from `start` to `end` with the mutants in it, which it takes from the list. @param {number} start @param {number} end @returns {string} */
  const textOf = (start, end) => {
    let text = "";
    let at = start;
    for (let next = outerFirst[0]; next && next.mutant.whole.end <= end; next = outerFirst[0]) {
      outerFirst.shift();
      const { whole, ...change } = next.mutant;
      text += source.slice(at, whole.start);
      const changed = source.slice(whole.start, change.start) + change.text + source.slice(change.end, whole.end);
      const original = textOf(whole.start, whole.end);
      const isOn = `globalThis.mutants.isOn(${next.number})`;
      text += whole.isStatement ? `{ if (!${isOn}) ${original} }` : `(${isOn} ? ${changed} : ${original})`;
      at = whole.end;
    }
    return text + source.slice(at, end);
  };
  return `globalThis.mutants.hasLoaded(${JSON.stringify(file)}); ${textOf(0, source.length)}`;
}
