/** Tries mutants with the tests that meet them, the quick tests before the slow ones, until a test has seen each or none is left. */
import { Alone } from "./alone.mjs";
import { run } from "./ordering.mjs";

/** Tests up to so many milliseconds come first, then those up to the next: a mutant that a quick one sees meets no slow one. */
const bands = [10, 100, 1000, Number.POSITIVE_INFINITY];

/** @typedef {import("./alone.mjs").Test} Test */
/** @typedef {import("./alone.mjs").Outside} Outside */

export class Trial {
  /** Where each one was seen that was: a test, or a file. @type {Map<number, string>} */
  seen = new Map();
  /** Those whose processes gave no answer, not even alone. @type {Set<number>} */
  silent = new Set();
  /** Those that must be there from the first import on, or that left something in their process. @type {Set<number>} */
  #alone = new Set();
  /** What the tests of each one took. @type {Map<number, number>} */
  #spent = new Map();
  #of;

  /**
   * @param {{ chosen: Set<number>, tests: Test[], outside: Outside[], count: number, withinMs: number, moduleOf: (number: number) => string,
   *   isOwn: (file: string, number: number) => boolean, say: (text: string) => void, onSeen: (number: number, where: string) => void }} of
   * `isOwn`: a test file imports the module of a mutant. A mutant that `withinMs` of tests have not seen has survived: jobs in virtual time take seconds each, and meet nearly all of them.
   */
  constructor(of) {
    this.#of = of;
  }

  async run() {
    const { tests: all, outside, isOwn, say } = this.#of;
    for (const [at, most] of bands.entries()) {
      const tests = all.filter(({ ms }) => ms <= most && ms > (bands[at - 1] ?? -1));
      const files = [...new Set(tests.map(({ file }) => file))]
        .map((file) => ({ file, tests: tests.filter((test) => test.file === file) }))
        .map((entry) => ({ ...entry, numbers: [...new Set(Object.values(this.#workOf(entry.tests)).flat())] }))
        .map((entry) => ({ ...entry, own: entry.numbers.filter((number) => isOwn(entry.file, number)).length }))
        // Tests of a module itself detect most of its mutants; whole jobs meet nearly all, and take long for each.
        .sort((a, b) => b.own - a.own || b.numbers.length - a.numbers.length);
      for (const [done, { file, tests }] of files.entries())
        if (await this.#tryFile(file, tests))
          say(`tests up to ${most} ms, file ${done + 1} of ${files.length}, ${file}: ${this.#sum()}`);
    }
    const inTests = new Set(all.flatMap(({ met }) => met));
    for (const { met } of outside) for (const number of met) if (!inTests.has(number)) this.#alone.add(number);
    const alone = new Alone({ ...this.#of, silent: this.silent, see: (number, where) => this.#see(number, where) });
    const isLeft = (/** @type {number} */ number) => this.#isLeft(number);
    await alone.run([...this.#alone].filter(isLeft), isLeft, () => this.#sum());
  }

  #sum() {
    return `${this.seen.size} of ${this.#of.chosen.size} seen`;
  }

  /** @param {number} number @param {string} where */
  #see(number, where) {
    this.seen.set(number, where);
    this.#of.onSeen(number, where);
  }

  /** @param {number} number */
  #isLeft(number) {
    return this.#of.chosen.has(number) && !this.seen.has(number);
  }

  /** Per test the mutants that it shall be run with; the quick ones first, as long as there is time. @param {Test[]} tests */
  #workOf(tests) {
    /** @type {Record<string, number[]>} */
    const work = {};
    const spent = new Map(this.#spent);
    for (const { id, ms, met } of [...tests].sort((a, b) => a.ms - b.ms)) {
      const left = met.filter((number) => this.#isLeft(number) && !this.#alone.has(number));
      const within = left.filter((number) => (spent.get(number) ?? 0) + ms <= this.#of.withinMs);
      for (const number of within) spent.set(number, (spent.get(number) ?? 0) + ms);
      if (within.length > 0) work[id] = within;
    }
    return work;
  }

  /** @param {string} file @param {Test[]} tests In their order there. @returns {Promise<boolean>} False when there was nothing to try. */
  async #tryFile(file, tests) {
    const { count, say } = this.#of;
    /** Tests before which, or without a mutant in which, a process ended. @type {Set<string>} */
    const ended = new Set();
    for (let left = tests; left.length > 0; ) {
      const work = this.#workOf(left);
      if (Object.keys(work).length === 0) return left.length < tests.length;
      const { lines, end } = await run(file, { way: "try", count, tests: work }, { say });
      for (const line of lines) this.#note(line, file);
      const isDoubtful = lines.some(({ doubtful }) => doubtful);
      if (end === "ended" && !isDoubtful) return true;
      const last = lines.findLast(({ test }) => test);
      const at = last ? left.findIndex(({ id }) => id === last.test) : 0;
      const stuck = end === "ended" ? undefined : (last?.mutant ?? -1);
      // What was on when the process ended is tried alone; whether it was the reason shows there.
      if (stuck !== undefined && stuck >= 0) this.#alone.add(stuck);
      const id = left[at]?.id ?? "";
      const isTwice = stuck === -1 && ended.has(id);
      if (isTwice)
        say(`${file}: its process ended twice, or hung, in a test without a change, which is left out: ${id}`);
      if (stuck === -1) ended.add(id);
      left = left.slice(isTwice ? at + 1 : at);
    }
    return true;
  }

  /** @param {import("./ordering.mjs").Line} line @param {string} file */
  #note(line, file) {
    const test = this.#of.tests.find(({ id }) => id === line.test);
    if (line.seen !== undefined) this.#see(line.seen, file);
    for (const number of line.doubtful ?? []) this.#alone.add(number);
    if (line.mutant !== undefined && line.mutant >= 0)
      this.#spent.set(line.mutant, (this.#spent.get(line.mutant) ?? 0) + (test?.ms ?? 0));
  }
}
