/** Finished groups as files: out of a run, and into another. */
export { type Exported, exportTrajectories } from "./export.ts";
export { loadTrajectories, type RefusedFile, scanTrajectories, type TrajectoryFile } from "./files.ts";
export { importerId, storeGroups } from "./store.ts";
