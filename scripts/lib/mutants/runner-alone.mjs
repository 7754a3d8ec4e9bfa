/**
 * Reads and runs the file again and again in one process, each time with another mutant, which is there from the first import on: vitest is given the
 * file as often as that may take, and the modules are forgotten before each round.
 *
 * A mutant counts as seen where the file fails with it, and passes in the next round without it. Where it does not pass then, something stayed
 * of the mutant: nothing more is said in this process.
 */
import { TestRunner, vi } from "vitest";
import { limited } from "./limited.mjs";
import { activeNow, isMet, limitMs, none, order, switchOn, takeMet, tell } from "./switchboard.mjs";

const mutants = order.way === "alone" ? order.mutants : [];
/** @type {Record<string, import("./switchboard.mjs").Plain>} */
const tests = order.way === "alone" ? order.tests : {};

export class AloneRunner extends TestRunner {
  #left = [...mutants];
  /** The one with which the file failed in the last round. */
  #suspect = none;
  #hasFailed = false;
  #isOver = false;
  #rounds = 0;

  /** @param {import("vitest").RunnerTestFile} file @override */
  onCollectStart(file) {
    super.onCollectStart(file);
    this.#hasFailed = false;
    if (this.#isOver) return;
    if (this.#rounds > 0) vi.resetModules();
    this.#rounds += 1;
    takeMet();
    switchOn(this.#suspect === none ? (this.#left[0] ?? none) : none);
    tell({ mutant: activeNow(), withinMs: 20_000 });
  }

  /** @param {string} path @param {"collect" | "setup"} source @override */
  async importFile(path, source) {
    if (this.#isOver) return;
    try {
      return await super.importFile(path, source);
    } catch (error) {
      this.#hasFailed = true;
      throw error;
    }
  }

  /** @param {import("vitest").RunnerTestCase} test @override */
  async onBeforeRunTask(test) {
    await super.onBeforeRunTask(test);
    if (this.#isOver || this.#hasFailed || !tests[test.id]) test.mode = "skip";
  }

  /** @param {import("vitest").RunnerTestCase} test @override */
  onBeforeTryTask(test) {
    super.onBeforeTryTask(test);
    const { wallMs = 0, passed = 0 } = tests[test.id] ?? {};
    switchOn(activeNow(), passed);
    tell({ test: test.id, mutant: activeNow(), withinMs: limitMs(wallMs) });
  }

  /** @param {import("vitest").RunnerTestCase} test */
  async runTask(test) {
    const run = TestRunner.getTestFn(test);
    return activeNow() === none ? run() : limited(run, limitMs(tests[test.id]?.wallMs ?? 0));
  }

  /** @param {import("vitest").RunnerTestCase} test */
  onAfterRetryTask(test) {
    vi.useRealTimers();
    if (test.result?.state !== "fail") return;
    this.#hasFailed = true;
    // For vitest no test fails: it would end the run with the first one.
    test.result.state = "skip";
    test.result.errors = [];
  }

  /** @param {import("vitest").RunnerTestSuite} suite @override */
  async onAfterRunSuite(suite) {
    if (suite.result?.state === "fail") this.#hasFailed = true;
    await super.onAfterRunSuite(suite);
  }

  /** @override */
  onAfterRunFiles() {
    super.onAfterRunFiles();
    if (!this.#isOver) this.#conclude();
    if (this.#isOver) tell({ ended: true });
  }

  /** What this round shows. */
  #conclude() {
    const tried = activeNow();
    switchOn(none);
    if (tried !== none && this.#hasFailed) {
      this.#suspect = tried;
      return;
    }
    if (tried !== none) tell(isMet(tried) ? { survived: tried } : { unmet: [tried] });
    else if (this.#suspect === none) tell({ isPlain: !this.#hasFailed });
    else tell(this.#hasFailed ? { doubtful: [this.#suspect] } : { seen: this.#suspect });
    this.#isOver = tried === none && this.#hasFailed;
    this.#suspect = none;
    this.#left.shift();
    if (this.#left.length === 0) this.#isOver = true;
  }
}
