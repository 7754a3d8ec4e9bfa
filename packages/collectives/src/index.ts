/** How weight bytes move: versions are published and pulled; gradients are reduced along a tree of shards. */
export { type DataPlaneListener, dataPlaneActivity, hearDataPlane, setNetworkTimes } from "./activity.ts";
export type {
  DataPlaneActivity,
  DataPlaneEvent,
  DataPlaneEventKind,
  NetworkTimes,
  PeerBytes,
} from "./activity-types.ts";
export {
  type DataPlaneUsage,
  dataPlaneUsage,
  type GlooCapabilities,
  glooCapabilities,
  type NativeCapabilities,
  nativeCapabilities,
} from "./capabilities.ts";
export { digestsOf } from "./digest.ts";
export type { GpuBuffer, MappedBytes } from "./gpu/buffer.ts";
export {
  type GpuCapabilities,
  type GpuDevice,
  type GpuFeature,
  type GpuLibrary,
  gpuCapabilities,
} from "./gpu/capabilities.ts";
export type {
  GpuCollective,
  GpuCommunicator,
  GpuDataType,
  GpuOperation,
  GpuReduction,
} from "./gpu/communicator.ts";
export { type CommunicatorOptions, type Gpu, type GpuWait, openGpu } from "./gpu/device.ts";
export { type GpuLibraries, gpuLibrariesOf } from "./gpu/libraries.ts";
export type { GpuShelf, GpuShelfOptions, ShelvedVersion, TakeVersionOptions } from "./gpu/shelf.ts";
export type { GpuStreamWait } from "./gpu/wait.ts";
export {
  type GradientMesh,
  type GradientMeshOptions,
  openGradientMesh,
  type ReduceOptions,
  type ShardWindow,
} from "./gradient-mesh.ts";
export {
  type AllReduceOptions,
  type CollectiveGroup,
  type CollectiveGroupOptions,
  type CollectiveOptions,
  type DType,
  type GroupTransport,
  openGroup,
  type ReducedSlice,
  type ResultWindow,
  type TensorPart,
} from "./group.ts";
export {
  type AddUpOptions,
  type FanOutOptions,
  type FanOutSample,
  measureAddUp,
  measureCopies,
  measureFanOut,
} from "./host-limit.ts";
export { localAddressOf } from "./local-address.ts";
export type { CopyOptions, MappedVersion, PullResult, VersionId } from "./mapped-version.ts";
export type { MembershipOptions, MeshPlace } from "./membership.ts";
export type { ProgressOptions, PullProgress } from "./pull-progress.ts";
export { type MapOptions, mapVersion, type PullOptions, pullVersion } from "./pull-version.ts";
export { allReduceTensors, type ReducedTensor } from "./reduce-tensors.ts";
export {
  type ModelTensor,
  type ParallelLayout,
  ranksOf,
  type Shard,
  sectionSizes,
  shardsOf,
} from "./reshard/layout.ts";
export { planRank, planReshard, type RankPlan, type Slice } from "./reshard/plan.ts";
export { type PullShardsOptions, type PullShardsResult, pullShards, type ShardSource } from "./reshard/pull-shards.ts";
export { hasShaInstructions, sha256Each } from "./sha256.ts";
export { openSharedRegion, type SharedRegion } from "./shared-region.ts";
export { guardSignal } from "./signals.ts";
export { type FusedTensor, type Fusion, type FusionOptions, planFusion } from "./tensor-fusion.ts";
export {
  type DeltaOptions,
  deltaDefaults,
  openVersionStore,
  type SectionInfo,
  type VersionStore,
  type VersionStoreOptions,
} from "./version-store.ts";
