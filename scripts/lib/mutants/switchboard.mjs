/** In the process of the tests: which mutant is on, which were met, and the order that this process has. */
import { appendFileSync, readFileSync } from "node:fs";

/**
 * What a test takes without a mutant: in milliseconds, and in places of mutants that it passes.
 * @typedef {{ wallMs: number, passed: number }} Plain
 */

/**
 * `measure` notes which mutants each test meets; `try` runs each test again for each of its mutants; `alone` reads the file again for each mutant, which
 * is there from the first import on.
 * @typedef {{ into: string, count: number } & ({ way: "measure" } | { way: "try", tests: Record<string, number[]> } |
 *   { way: "alone", mutants: number[], tests: Record<string, Plain> })} Order
 */

/** @type {Order} */
export const order = JSON.parse(readFileSync(process.env.MUSTER_MUTANTS_ORDER ?? "", "utf8"));

/** A test that waits for ever is given so many times its own time, and at least this. */
const patience = 10;
const leastMs = 3000;
/** A mutant may pass so many places more than the test does without it; it ends there, whatever its loop waits for. */
const slack = 200_000;
/** In place of a mutant: the code as it is. */
export const none = -1;

const met = new Uint8Array(order.count);
/** Modules with mutants that were loaded. @type {Set<string>} */
export const loaded = new Set();
let active = none;
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

/** From now on this one is on, and ends where it passes far more places than the code as it is does. @param {number} number @param {number} plainPassed */
export function switchOn(number, plainPassed = Number.POSITIVE_INFINITY) {
  active = number;
  passed = 0;
  mostPassed = number === none ? Number.POSITIVE_INFINITY : slack + 2 * patience * plainPassed;
}

export const activeNow = () => active;
export const passedSince = () => passed;
/** @param {number} number */
export const isMet = (number) => met[number] === 1;

/** The numbers that were met since the last call. */
export function takeMet() {
  const numbers = [...met.keys()].filter((number) => met[number]);
  met.fill(0);
  return numbers;
}

/** How long a test may take with a mutant. @param {number} plainMs */
export function limitMs(plainMs) {
  return active === none ? 60_000 : Math.max(leastMs, patience * plainMs);
}

/** @param {object} said */
export function tell(said) {
  appendFileSync(order.into, `${JSON.stringify(said)}\n`);
}
