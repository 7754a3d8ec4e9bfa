/** Whom the checkers watch: a process of the simulator, or a life of a real one as its records show it. */
import type { SimProcess } from "../world/process.ts";

/** What a checker knows of whoever said or did something; compared by identity. */
export type Observed = Pick<SimProcess, "name" | "node" | "role" | "isDead"> & Partial<Pick<SimProcess, "isStuck">>;
