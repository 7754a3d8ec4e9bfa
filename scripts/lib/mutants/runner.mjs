/**
 * Runs the tests of one file in one of three ways that the file `MUSTER_MUTANTS_ORDER` names, and writes what it learns, line by line:
 * `measure` notes which mutants each test meets; `try` runs each test again for each of its mutants, in the same process; `alone` runs with one mutant
 * from the first import on.
 *
 * A mutant counts as seen where a test fails with it and passes again without it. Where it does not pass again something stayed of the mutant: the
 * file ends there, and that mutant is tried alone. The hooks of the file run around each attempt: an attempt is what vitest calls a repeat.
 */
import { appendFileSync, readFileSync } from "node:fs";
import { TestRunner, vi } from "vitest";

/** @typedef {{ into: string, count: number } & ({ way: "measure" } | { way: "try", tests: Record<string, number[]> } | { way: "alone", mutant: number, tests: string[] })} Order */

/** @type {Order} */
const order = JSON.parse(readFileSync(process.env.MUSTER_MUTANTS_ORDER ?? "", "utf8"));
const { setTimeout, clearTimeout } = globalThis;
const now = performance.now.bind(performance);

/** A test that waits for ever is given so many times its own time, and at least this. */
const patience = 10;
const leastMs = 3000;
/** A mutant may pass so many places more than the test does without it; it ends there, whatever its loop waits for. */
const slack = 200_000;

const none = -1;
const met = new Uint8Array(order.count);
const loaded = new Set();
let active = order.way === "alone" ? order.mutant : none;
let passed = 0;
let mostPassed = Number.POSITIVE_INFINITY;
Reflect.set(globalThis, "mutants", {
  /** @param {number} number */
  isOn(number) {
    met[number] = 1;
    passed += 1;
    if (passed > mostPassed) throw new Error("the mutant does not end");
    return number === active;
  },
  /** @param {string} file */
  hasLoaded(file) {
    loaded.add(file);
  },
});

/** @param {object} said */
function tell(said) {
  appendFileSync(order.into, `${JSON.stringify(said)}\n`);
}

function computedMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The numbers that were met since the last call. */
function takeMet() {
  const numbers = [...met.keys()].filter((number) => met[number]);
  met.fill(0);
  return numbers;
}

tell({ pid: process.pid });

// biome-ignore lint/style/noDefaultExport: vitest reads a runner so
export default class MutantRunner extends TestRunner {
  /** What was met before the first test, and between tests. @type {Set<number>} */
  #outside = new Set();
  /** @type {Set<number>} */
  #seen = new Set();
  /** Mutants that this test still has before it. @type {number[]} */
  #left = [];
  /** The one that made the test fail just now. */
  #suspect = none;
  #plain = { ms: 0, passed: 0, isKnown: false };
  #beganAt = 0;
  /** What the process had computed then, in milliseconds: other than the time it does not depend on what else the machine does. */
  #computedMs = 0;
  /** Something stayed of a mutant: nothing more can be said in this process. */
  #isOver = false;

  /** @param {import("vitest").RunnerTestCase} test @override */
  async onBeforeRunTask(test) {
    await super.onBeforeRunTask(test);
    if ((order.way === "alone" && !order.tests.includes(test.id)) || this.#isOver) test.mode = "skip";
    if (order.way === "measure") for (const number of takeMet()) this.#outside.add(number);
    if (order.way !== "try" || this.#isOver) return;
    this.#left = (order.tests[test.id] ?? []).filter((number) => !this.#seen.has(number));
    this.#suspect = none;
    this.#plain = { ms: 0, passed: 0, isKnown: false };
    if (this.#left.length === 0) test.mode = "skip";
    // At most all of them, each followed by the test as it is; where fewer will do, it ends earlier.
    test.repeats = 2 * this.#left.length + 1;
  }

  /** @param {import("vitest").RunnerTestCase} test @override */
  onBeforeTryTask(test) {
    super.onBeforeTryTask(test);
    passed = 0;
    this.#beganAt = now();
    this.#computedMs = computedMs();
    if (order.way !== "try") return;
    active = this.#plain.isKnown && this.#suspect === none ? (this.#left[0] ?? none) : none;
    mostPassed = active === none ? Number.POSITIVE_INFINITY : slack + 2 * patience * this.#plain.passed;
    tell({ test: test.id, mutant: active, withinMs: this.#limitMs() });
  }

  #limitMs() {
    return active === none ? 60_000 : Math.max(leastMs, patience * this.#plain.ms);
  }

  /** @param {import("vitest").RunnerTestCase} test */
  async runTask(test) {
    const run = TestRunner.getTestFn(test);
    if (active === none || order.way !== "try") return run();
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the test does not end with the mutant")), this.#limitMs());
    });
    try {
      await Promise.race([run(), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {import("vitest").RunnerTestCase} test */
  onAfterRetryTask(test) {
    const ms = now() - this.#beganAt;
    if (order.way === "measure")
      tell({ test: test.id, name: test.name, ms: Math.max(computedMs() - this.#computedMs, ms / 8), met: takeMet() });
    if (order.way !== "try" || !test.result) return;
    const hasFailed = test.result.state === "fail";
    const tried = active;
    active = none;
    mostPassed = Number.POSITIVE_INFINITY;
    vi.useRealTimers();
    test.result.state = "run";
    test.result.errors = [];
    if (tried !== none) {
      if (hasFailed) this.#suspect = tried;
      else this.#left.shift();
    } else if (hasFailed) {
      tell(this.#plain.isKnown ? { doubtful: [this.#suspect] } : { doubtful: this.#left });
      this.#isOver = true;
    } else if (this.#plain.isKnown) {
      tell({ seen: this.#suspect, test: test.id });
      this.#seen.add(this.#suspect);
      this.#suspect = none;
      this.#left.shift();
    } else this.#plain = { ms, passed, isKnown: true };
    if (this.#isOver || (this.#suspect === none && this.#left.length === 0)) test.result.state = "skip";
  }

  /** @override */
  onAfterRunFiles() {
    super.onAfterRunFiles();
    if (order.way === "measure") {
      for (const number of takeMet()) this.#outside.add(number);
      tell({ outside: [...this.#outside], loaded: [...loaded] });
    }
    tell({ ended: true });
  }
}
