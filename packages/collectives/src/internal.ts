/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { digestOf } from "./digest.ts";
