/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { definedErrors, type ErrorDefinition } from "./errors.ts";
