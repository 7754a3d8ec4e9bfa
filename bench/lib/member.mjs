/** Processes that take part in a benchmark: they do what they are told over IPC, one call at a time, and answer. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** One process. */
export class Member {
  #process;

  /** @param {URL} script What it runs; it calls {@link serveCalls}. @param {readonly string[]} wrapper Command line that runs it, e.g. on a test host. */
  constructor(script, wrapper = []) {
    const [command = "", ...args] = [...wrapper, process.execPath, fileURLToPath(script)];
    this.#process = spawn(command, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  }

  /** @param {string} call @param {object} options @returns {Promise<any>} What the member answered. */
  call(call, options) {
    return new Promise((resolve, reject) => {
      const ended = () => reject(new Error(`a member ended during ${call}`));
      this.#process.once("exit", ended);
      this.#process.once("message", (/** @type {any} */ answer) => {
        this.#process.off("exit", ended);
        if ("failed" in answer) reject(new Error(answer.failed));
        else resolve(answer.done);
      });
      this.#process.send({ call, options });
    });
  }

  end() {
    this.#process.kill("SIGKILL");
  }
}

/** Answers the calls of the parent until it goes. @param {Record<string, (options: any) => unknown>} calls */
export function serveCalls(calls) {
  process.on("message", async (/** @type {any} */ { call, options }) => {
    try {
      process.send?.({ done: await calls[call]?.(options) });
    } catch (error) {
      process.send?.({ failed: String(error) });
    }
  });
  process.on("disconnect", () => process.exit(0));
}
