/** Tries mutants with the tests that meet them, the quick tests before the slow ones, until a test has seen each or none is left. */
import { run } from "./ordering.mjs";

/** Tests up to so many milliseconds come first, then those up to the next: a mutant that a quick one sees meets no slow one. */
const bands = [10, 100, 1000, Number.POSITIVE_INFINITY];
/** Each file that a mutant has for itself costs so much before its first test. */
const startMs = 1000;

/** @typedef {{ file: string, id: string, ms: number, met: number[] }} Test */
/** @typedef {{ file: string, met: Set<number> }} Outside What a test file meets outside of its tests. */

export class Trial {
  /** Where each one was seen that was. @type {Map<number, string>} */
  seen = new Map();
  /** Those that must be there from the first import on. @type {Set<number>} */
  #alone = new Set();
  /** What the tests of each one took. @type {Map<number, number>} */
  #spent = new Map();
  #chosen;
  #tests;
  #outside;
  #count;
  #withinMs;
  #isOwn;
  #say;

  /**
   * @param {{ chosen: Set<number>, tests: Test[], outside: Outside[], count: number, withinMs: number, isOwn: (file: string, number: number) => boolean, say: (text: string) => void }} of
   * `isOwn`: a test file imports the module of a mutant. A mutant that `withinMs` of tests have not seen has survived: jobs in virtual time take seconds each, and meet nearly all of them.
   */
  constructor({ chosen, tests, outside, count, withinMs, isOwn, say }) {
    this.#chosen = chosen;
    this.#tests = tests;
    this.#outside = outside;
    this.#count = count;
    this.#withinMs = withinMs;
    this.#isOwn = isOwn;
    this.#say = say;
  }

  async run() {
    for (const [at, most] of bands.entries()) {
      const tests = this.#tests.filter(({ ms }) => ms <= most && ms > (bands[at - 1] ?? -1));
      const files = [...new Set(tests.map(({ file }) => file))]
        .map((file) => ({ file, tests: tests.filter((test) => test.file === file).sort((a, b) => a.ms - b.ms) }))
        .map((entry) => ({ ...entry, size: new Set(Object.values(this.#workOf(entry.tests)).flat()).size }))
        .sort((a, b) => b.size - a.size);
      for (const [done, { file, tests }] of files.entries()) {
        await this.#tryFile(file, tests);
        this.#say(`tests up to ${most} ms, file ${done + 1} of ${files.length}: ${this.#sum()}`);
      }
    }
    const inTests = new Set(this.#tests.flatMap(({ met }) => met));
    for (const { met } of this.#outside) for (const number of met) if (!inTests.has(number)) this.#alone.add(number);
    const alone = [...this.#alone].filter((number) => this.#isLeft(number));
    for (const [done, number] of alone.entries()) {
      await this.#tryAlone(number);
      this.#say(`from the first import on, ${done + 1} of ${alone.length}: ${this.#sum()}`);
    }
  }

  #sum() {
    return `${this.seen.size} of ${this.#chosen.size} seen`;
  }

  /** @param {number} number */
  #isLeft(number) {
    return this.#chosen.has(number) && !this.seen.has(number);
  }

  /** Per test the mutants that it shall be run with. @param {Test[]} tests */
  #workOf(tests) {
    /** @type {Record<string, number[]>} */
    const work = {};
    const spent = new Map(this.#spent);
    for (const { id, ms, met } of tests) {
      const left = met.filter((number) => this.#isLeft(number) && !this.#alone.has(number));
      const within = left.filter((number) => (spent.get(number) ?? 0) + ms <= this.#withinMs);
      for (const number of within) spent.set(number, (spent.get(number) ?? 0) + ms);
      if (within.length > 0) work[id] = within;
    }
    return work;
  }

  /** @param {string} file @param {Test[]} tests */
  async #tryFile(file, tests) {
    let left = tests;
    while (left.length > 0) {
      const work = this.#workOf(left);
      if (Object.keys(work).length === 0) return;
      const { lines } = await run([file], { way: "try", count: this.#count, tests: work });
      for (const line of lines) this.#note(line);
      const last = lines.findLast(({ test }) => test);
      const hasEnded = lines.at(-1)?.ended && !lines.some(({ doubtful }) => doubtful);
      if (hasEnded || last === undefined) return;
      // It hung, or something stayed of a mutant: the tests from there on have a new process. What hung without a mutant is not run again.
      const hung = lines.at(-1)?.ended ? undefined : last.mutant;
      if (hung !== undefined && hung >= 0) this.seen.set(hung, `${file}: does not end`);
      const at = left.findIndex(({ id }) => id === last.test);
      left = left.slice(hung !== undefined && hung < 0 ? at + 1 : at);
    }
  }

  /** @param {{ seen?: number, doubtful?: number[], test?: string, mutant?: number }} line */
  #note(line) {
    if (line.seen !== undefined) this.seen.set(line.seen, line.test ?? "");
    for (const number of line.doubtful ?? []) this.#alone.add(number);
    const ms = this.#tests.find(({ id }) => id === line.test)?.ms ?? 0;
    if (line.mutant !== undefined && line.mutant >= 0)
      this.#spent.set(line.mutant, (this.#spent.get(line.mutant) ?? 0) + ms);
  }

  /** With a process of its own from the first import on: the test files that import its module first, then the quick ones. @param {number} number */
  async #tryAlone(number) {
    const ways = [...new Set(this.#tests.map(({ file }) => file))]
      .map((file) => {
        const tests = this.#tests.filter((test) => test.file === file);
        const meeting = tests.filter(({ met }) => met.includes(number));
        const isOutside = this.#outside.some((entry) => entry.file === file && entry.met.has(number));
        const all = isOutside ? tests : meeting;
        const ms = startMs + all.reduce((sum, test) => sum + test.ms, 0);
        return { file, tests: all.map(({ id }) => id), ms, rank: this.#isOwn(file, number) ? 0 : 1 };
      })
      .filter(({ tests }) => tests.length > 0)
      .sort((a, b) => a.rank - b.rank || a.ms - b.ms);
    let spent = 0;
    for (const { file, tests, ms } of ways) {
      spent += ms;
      if (spent > this.#withinMs + 10 * startMs) return;
      const { hasPassed } = await run([file], { way: "alone", count: this.#count, mutant: number, tests });
      if (hasPassed) continue;
      this.seen.set(number, file);
      return;
    }
  }
}
