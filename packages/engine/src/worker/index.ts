/** Workers: engines that are programs of the user. */
export { workerAdapterOf } from "./adapter.ts";
export { type WorkerSubject, workerChecks, workerHello } from "./checks.ts";
export { isEngine, type WorkerSelf } from "./description.ts";
export type { OpenSharedMemory, RegionMemory } from "./region-memory.ts";
export { scorerFault } from "./scorer-fault.ts";
