export { loadCheckpoint, loadCheckpointParts, verifyCheckpoint } from "./by-path.ts";
export type { ByteSource, CheckpointContent, CheckpointSection, LoadedSection } from "./content.ts";
export type { CheckpointFs, PathStat, ReadableFile, WritableFile } from "./files.ts";
export type { HashPieces } from "./hash/gathered.ts";
export type { CheckpointManifest, Cursor } from "./manifest.ts";
export { newestCheckpointName } from "./newest-name.ts";
export { newestVerifiedCheckpoint } from "./newest-verified.ts";
export type { CheckpointInfo, LoadedCheckpoint } from "./read.ts";
export type { ChooseParts, ReadParts } from "./read-parts.ts";
export {
  type CheckpointStore,
  type CheckpointStoreOptions,
  openCheckpointStore,
  type SavedCheckpoint,
} from "./store.ts";
