/**
 * Tries mutants that must be there from the first import on: several in one process, one after another, and in a process of its own the one with which
 * that process ended, hung or did not become itself again.
 */
import { run } from "./ordering.mjs";

/** To load the modules again costs so much before the first test. */
const reloadMs = 500;
/** The more mutants a process tries, the more memory the modules take that it has loaded. */
const togetherMax = 25;
const none = -1;

/** @typedef {{ file: string, id: string, ms: number, wallMs: number, passed: number, met: number[], modules: string[] }} Test */
/** @typedef {{ file: string, met: Set<number> }} Outside What a test file meets outside of its tests. */
/** @typedef {{ file: string, tests: Test[], ms: number, rank: number }} Way One test file that may see a mutant. */

export class Alone {
  #of;
  /** @type {Map<string, Test[]>} */
  #byFile = new Map();

  /**
   * @param {{ tests: Test[], outside: Outside[], count: number, withinMs: number, moduleOf: (number: number) => string,
   *   isOwn: (file: string, number: number) => boolean, say: (text: string) => void, see: (number: number, where: string) => void,
   *   silent: Set<number> }} of `isOwn`: a test file imports the module of a mutant. `silent` takes those whose processes gave no answer.
   */
  constructor(of) {
    this.#of = of;
    for (const test of [...of.tests].sort((a, b) => a.ms - b.ms))
      this.#byFile.set(test.file, [...(this.#byFile.get(test.file) ?? []), test]);
  }

  /** @param {readonly number[]} numbers @param {(number: number) => boolean} isLeft @param {() => string} sum */
  async run(numbers, isLeft, sum) {
    let left = numbers.map((number) => ({ number, ways: this.#waysOf(number) }));
    for (let round = 1; ; round++) {
      left = left.filter(({ number, ways }) => isLeft(number) && ways.length > 0);
      if (left.length === 0) return;
      const batches = this.#batchesOf(left);
      for (const [done, { file, tests, numbers: together }] of batches.entries()) {
        await this.#tryTogether(file, together, tests);
        this.#of.say(`from the first import on, round ${round}, ${done + 1} of ${batches.length}, ${file}: ${sum()}`);
      }
      left = left.map(({ number, ways }) => ({ number, ways: ways.slice(1) }));
    }
  }

  /**
   * The test files that may see it: those that import its module first, then those with tests that pass through its module, the quick ones first; of
   * each as many tests as there is time for.
   *
   * @param {number} number @returns {Way[]}
   */
  #waysOf(number) {
    const { outside, withinMs, moduleOf, isOwn } = this.#of;
    const ways = [...this.#byFile].flatMap(([file, tests]) => {
      const meeting = tests.filter(({ met }) => met.includes(number));
      const isOutside = outside.some((entry) => entry.file === file && entry.met.has(number));
      if (!isOutside && meeting.length === 0) return [];
      const near = isOutside ? tests.filter(({ modules }) => modules.includes(moduleOf(number))) : meeting;
      let ms = 0;
      const inTime = (near.length > 0 ? near : tests).filter((test, i) => {
        const fits = i === 0 || ms + test.ms <= withinMs;
        if (fits) ms += test.ms;
        return fits;
      });
      const rank = isOwn(file, number) ? 0 : near.length > 0 ? 1 : 2;
      return [{ file, tests: inTime, ms: ms + reloadMs, rank }];
    });
    let spent = 0;
    return ways
      .sort((a, b) => a.rank - b.rank || a.ms - b.ms)
      .filter(({ ms }, i) => {
        spent += ms;
        return i === 0 || spent <= withinMs + 10 * reloadMs;
      });
  }

  /** Mutants of one module that the same file may see. @param {{ number: number, ways: Way[] }[]} left */
  #batchesOf(left) {
    /** @type {Map<string, { file: string, tests: Set<Test>, numbers: number[] }>} */
    const batches = new Map();
    for (const { number, ways } of left)
      for (const { file, tests } of ways.slice(0, 1)) {
        let key = `${file} ${this.#of.moduleOf(number)}`;
        while (batches.get(key)?.numbers.length === togetherMax) key += "+";
        const batch = batches.get(key) ?? { file, tests: new Set(), numbers: [] };
        batches.set(key, batch);
        for (const test of tests) batch.tests.add(test);
        batch.numbers.push(number);
      }
    return [...batches.values()].map(({ file, tests, numbers }) => ({
      ...{ file, numbers },
      tests: Object.fromEntries([...tests].map(({ id, wallMs, passed }) => [id, { wallMs, passed }])),
    }));
  }

  /** @param {string} file @param {number[]} mutants @param {object} tests */
  #order(file, mutants, tests) {
    const { count, say } = this.#of;
    return run(file, { way: "alone", count, mutants, tests }, { times: 2 * mutants.length, say });
  }

  /** @param {string} file @param {number[]} numbers @param {object} tests */
  async #tryTogether(file, numbers, tests) {
    /** @type {number[]} */
    const own = [];
    let left = numbers;
    let wasMute = false;
    while (left.length > 0) {
      const { lines, end } = await this.#order(file, left, tests);
      const done = new Set(lines.flatMap(({ survived }) => survived ?? []));
      for (const { seen } of lines) if (seen !== undefined) this.#of.see(seen, file);
      for (const { seen } of lines) if (seen !== undefined) done.add(seen);
      const doubtful = lines.flatMap(({ doubtful, unmet }) => doubtful ?? unmet ?? []);
      const last = lines.findLast(({ mutant = none }) => mutant !== none)?.mutant;
      if (end !== "ended" && last !== undefined && !done.has(last)) doubtful.push(last);
      const before = left.length;
      left = left.filter((number) => !done.has(number) && !doubtful.includes(number));
      own.push(...doubtful);
      if (left.length < before) continue;
      // The process gave no answer at all.
      if (wasMute) for (const number of left) this.#of.silent.add(number);
      if (wasMute) break;
      wasMute = true;
    }
    for (const number of new Set(own)) await this.#tryOwn(file, number, tests);
  }

  /** @param {string} file @param {number} number @param {object} tests */
  async #tryOwn(file, number, tests) {
    const ends = [];
    while (ends.length < 2) {
      const { lines, end } = await this.#order(file, [number], tests);
      if (lines.some(({ seen }) => seen === number)) return this.#of.see(number, file);
      if (lines.some(({ survived, unmet }) => survived !== undefined || unmet !== undefined)) return;
      if (lines.some(({ doubtful }) => doubtful)) {
        // It failed, and something stayed of it in that process: what does a new one say without it?
        const plain = await this.#order(file, [none], tests);
        if (plain.lines.some(({ isPlain }) => isPlain)) return this.#of.see(number, file);
        break;
      }
      ends.push(end);
    }
    if (ends.length === 2 && ends.every((end) => end === "killed")) this.#of.see(number, `${file}: does not end`);
    else this.#of.silent.add(number);
  }
}
