/**
 * Runs each test of a file by itself (`measure`) or again for each of its mutants in the same process (`try`), and writes what it learns, line by line.
 *
 * A mutant counts as seen where a test fails with it and passes again without it. Where it does not pass again something stayed of the mutant: the
 * file ends there, and that mutant is tried alone. The hooks of the file run around each attempt: an attempt is what vitest calls a repeat.
 */
import { TestRunner, vi } from "vitest";
import { limited } from "./limited.mjs";
import { activeNow, limitMs, loaded, none, order, passedSince, switchOn, takeMet, tell } from "./switchboard.mjs";

const now = performance.now.bind(performance);

function computedMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

export class InTurnRunner extends TestRunner {
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
    if (this.#isOver) test.mode = "skip";
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
    this.#beganAt = now();
    this.#computedMs = computedMs();
    const isPlain = order.way !== "try" || !this.#plain.isKnown || this.#suspect !== none;
    switchOn(isPlain ? none : (this.#left[0] ?? none), this.#plain.passed);
    if (order.way === "try") tell({ test: test.id, mutant: activeNow(), withinMs: limitMs(this.#plain.ms) });
  }

  /** @param {import("vitest").RunnerTestCase} test */
  async runTask(test) {
    const run = TestRunner.getTestFn(test);
    return activeNow() === none ? run() : limited(run, limitMs(this.#plain.ms));
  }

  /** @param {import("vitest").RunnerTestCase} test */
  onAfterRetryTask(test) {
    const wallMs = now() - this.#beganAt;
    const passed = passedSince();
    const ms = Math.max(computedMs() - this.#computedMs, wallMs / 8);
    if (order.way === "measure") tell({ test: test.id, name: test.name, ms, wallMs, passed, met: takeMet() });
    if (order.way !== "try" || !test.result) return;
    const hasFailed = test.result.state === "fail";
    const tried = activeNow();
    switchOn(none);
    vi.useRealTimers();
    test.result.state = "run";
    test.result.errors = [];
    if (tried !== none) {
      if (hasFailed) this.#suspect = tried;
      else this.#left.shift();
    } else if (hasFailed) {
      tell({ doubtful: this.#plain.isKnown ? [this.#suspect] : this.#left });
      this.#isOver = true;
    } else if (this.#plain.isKnown) {
      tell({ seen: this.#suspect, test: test.id });
      this.#seen.add(this.#suspect);
      this.#suspect = none;
      this.#left.shift();
    } else this.#plain = { ms: wallMs, passed, isKnown: true };
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
