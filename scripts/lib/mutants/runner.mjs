/** What vitest runs the tests of one file with, in the way that the order names. */
import { AloneRunner } from "./runner-alone.mjs";
import { InTurnRunner } from "./runner-in-turn.mjs";
import { order, tell } from "./switchboard.mjs";

tell({ pid: process.pid });

// biome-ignore lint/style/noDefaultExport: vitest reads a runner so
export default order.way === "alone" ? AloneRunner : InTurnRunner;
