/** A reporter of vitest: writes which tests were skipped, and why, as its own JSON report does not. */
import { writeFileSync } from "node:fs";

/** Names the file that it writes: a list of {@link Skip}. */
export const skipsVariable = "MUSTER_SKIPS_FILE";

/** @typedef {{ readonly title: string, readonly why: string | null }} Skip - `why` is what the test said, or `null`. */

// biome-ignore lint/style/noDefaultExport: vitest takes a reporter as the default export of its file
export default class SkipsReporter {
  /** @param {readonly import("vitest/node").TestModule[]} modules */
  onTestRunEnd(modules) {
    const path = process.env[skipsVariable];
    if (path === undefined) return;
    /** @type {Skip[]} */
    const skips = [];
    for (const module of modules)
      for (const test of module.children.allTests("skipped")) {
        const result = test.result();
        const why = result.state === "skipped" ? (result.note ?? null) : null;
        skips.push({ title: test.fullName.replaceAll(" > ", " "), why });
      }
    writeFileSync(path, JSON.stringify(skips));
  }
}
