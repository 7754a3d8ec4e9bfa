/** Bugs of what carries and keeps bytes: transfers, digests, sums, disks. */
import { bytesIn } from "@muster/engine";
import { copyOf } from "@muster/engine/internal";
import { planeDigest } from "../plane/digest.ts";
import { type Canary, repeated } from "./canary.ts";

/** Canaries in the data plane and on the disk. */
export const planeCanaries: readonly Canary[] = [
  {
    name: "digest-not-checked",
    says: "a pull does not compare the digest of what arrived",
    profile: "swarm",
    seedsMax: 120,
    make: () => ({ plane: { skipsDigest: true } }),
  },
  {
    name: "file-not-synced",
    says: "a checkpoint is durable before its files are",
    profile: "swarm",
    seedsMax: 120,
    make: () => ({ disk: { skipsFileSync: true } }),
  },
  {
    name: "directory-not-synced",
    says: "a checkpoint is durable before its name is",
    profile: "swarm",
    seedsMax: 120,
    make: () => ({ disk: { skipsDirectorySync: true } }),
  },
  {
    name: "newest-checkpoint-trashed",
    says: "retention removes the newest checkpoint in place of the oldest",
    profile: "quiet",
    seedsMax: 40,
    make: () => ({ disk: { trashesNewest: true } }),
  },
  {
    name: "sum-in-order-of-arrival",
    says: "gradients are added in the order in which their ranks arrive",
    profile: "kills",
    seedsMax: 40,
    make: () => ({ mesh: { sumsByArrival: true } }),
  },
  {
    name: "digest-of-half",
    says: "a digest covers the first half of the bytes",
    profile: "swarm",
    seedsMax: 60,
    stage: (scenario) =>
      repeated(scenario, 8_000, (atMs) => ({
        kind: "bit-flip",
        atMs,
        forMs: 6_000,
        node: `policy-${1 + ((atMs / 8_000) % scenario.config.replicas.policy)}`,
      })),
    make: () => ({
      ports: (ports) => ({
        ...ports,
        digests: (sections, signal) =>
          ports.digests(
            sections.map((section) => copyOf(section).subarray(0, bytesIn(section) >> 1)),
            signal,
          ),
      }),
    }),
  },
  {
    name: "digest-too-short",
    says: "what everybody takes for a digest covers the first half of the bytes",
    profile: "swarm",
    seedsMax: 60,
    stage: (scenario) =>
      repeated(scenario, 8_000, (atMs) => ({
        kind: "bit-flip",
        atMs,
        forMs: 6_000,
        node: `policy-${1 + ((atMs / 8_000) % scenario.config.replicas.policy)}`,
      })),
    make: () => ({ digest: (bytes) => planeDigest(bytes.subarray(0, bytes.length >> 1)) }),
  },
  {
    name: "leaver-cleans-up",
    says: "a checkpoint actor that leaves removes what it wrote last",
    profile: "quiet",
    seedsMax: 10,
    make: () => ({
      ports: (ports, process, disk) => ({
        ...ports,
        checkpointStore: async (options) => {
          const store = await ports.checkpointStore(options);
          let last: string | null = null;
          process.onEnd(() => last !== null && void disk.fs.removeFile(`${last}/manifest.json`));
          const save: typeof store.save = async (content, signal) => {
            const saved = await store.save(content, signal);
            last = saved.path;
            return saved;
          };
          return { ...store, save };
        },
      }),
    }),
  },
  {
    name: "half-pulled",
    says: "the second half of a transfer never reaches its place",
    profile: "quiet",
    seedsMax: 10,
    make: () => ({
      ports: (ports) => ({
        ...ports,
        pull: async (options) => {
          const result = await ports.pull(options);
          for (const target of Object.values(options.into)) target.fill(0, target.length >> 1);
          return result;
        },
        map: async (options) => {
          const mapped = await ports.map(options);
          const copyTo: typeof mapped.copyTo = async (section, into, patience) => {
            await mapped.copyTo(section, into, patience);
            into.fill(0, into.length >> 1);
          };
          return { ...mapped, copyTo };
        },
      }),
    }),
  },
  {
    name: "checkpoint-read-wrong",
    says: "a byte of a checkpoint is read wrong and nobody looks",
    profile: "kills",
    seedsMax: 60,
    make: () => ({
      ports: (ports) => ({
        ...ports,
        loadCheckpoint: async (path) => {
          const loaded = await ports.loadCheckpoint(path);
          for (const { bytes } of loaded.sections) bytes[0] = (bytes[0] ?? 0) ^ 1;
          return loaded;
        },
      }),
    }),
  },
];
