/** Workers: engines that are programs of the user. */
export { workerAdapterOf } from "./adapter.ts";
export { type WorkerSubject, workerChecks, workerHello } from "./checks.ts";
export type { WorkerDescription } from "./description.ts";
