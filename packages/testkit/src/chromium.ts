/** A real browser for tests of pages: Chromium, where there is one (`MUSTER_CHROMIUM`, or on the path). */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

/** What a test that was skipped says. */
export const chromiumMissing = "no Chromium here: apt-get install chromium, or name one with MUSTER_CHROMIUM";

/** Path of the browser's program; `null` where there is none. */
export function findChromium(): string | null {
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const onPath = (process.env.PATH ?? "").split(delimiter).flatMap((path) => names.map((name) => join(path, name)));
  return [process.env.MUSTER_CHROMIUM ?? "", ...onPath].find((path) => path !== "" && isProgram(path)) ?? null;
}

/** Starts it without a window. */
export async function openBrowser(executablePath: string): Promise<Browser> {
  return await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--no-first-run"] });
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
