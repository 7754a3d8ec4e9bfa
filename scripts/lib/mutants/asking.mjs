/** Asks `serve.mjs` about one mutant after another; a mutant that runs for ever takes its process with it, and the next has a new one. */
import { fork } from "node:child_process";
import { resolve } from "node:path";

/** So much for the start, and so many times what its tests take by themselves. */
const startMs = 30_000;
const patience = 4;

/** @type {import("node:child_process").ChildProcess | null} */
let child = null;

/** What the process says next; `null` where it ends, or says nothing in time. @param {import("node:child_process").ChildProcess} from @param {number} withinMs @returns {Promise<unknown>} */
function next(from, withinMs) {
  return new Promise((done) => {
    /** @param {unknown} said */
    const settle = (said) => {
      clearTimeout(timer);
      from.off("message", settle).off("exit", onExit);
      done(said);
    };
    const onExit = () => settle(null);
    const timer = setTimeout(() => settle(null), withinMs);
    from.on("message", settle).on("exit", onExit);
  });
}

/** Ends the process and all that it started. */
export function endAsking() {
  if (child?.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
  child = null;
}

/** Whether one of the tests failed, or did not end. @param {import("./mutants-in.mjs").Mutant} mutant @param {{ test: string, ms: number }[]} met @returns {Promise<boolean>} */
export async function isSeenBy(mutant, met) {
  if (child === null) {
    child = fork(resolve(import.meta.dirname, "serve.mjs"), {
      detached: true,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    if ((await next(child, 4 * startMs)) !== "ready") throw new Error("vitest does not start");
  }
  child.send({ mutant, tests: met.map(({ test }) => test) });
  const isSeen = await next(child, startMs + patience * met.reduce((sum, { ms }) => sum + ms, 0));
  if (typeof isSeen === "boolean") return isSeen;
  endAsking();
  return true;
}
