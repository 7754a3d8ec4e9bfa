/** Bugs of the handlers: engines, meshes, versions and checkpoints, patched through their ports. */
import type { Ports } from "@muster/actors";
import type { SectionBytes } from "@muster/base";
import type { GradientMesh } from "@muster/collectives";
import type { PolicyEngine, RolloutEngine } from "@muster/engine";
import type { SimProcess } from "../world/process.ts";
import { type Canary, repeated } from "./canary.ts";
import { patched } from "./patched.ts";

const policyBug =
  (patch: (engine: PolicyEngine, process: SimProcess) => Partial<PolicyEngine>) =>
  (): { readonly ports: (ports: Ports, process: SimProcess) => Ports } => ({
    ports: (ports, process) => ({
      ...ports,
      policyEngine: async (config, training) => {
        const engine = await ports.policyEngine(config, training);
        return patched(engine, patch(engine, process));
      },
    }),
  });

const rolloutBug =
  (patch: (engine: RolloutEngine, process: SimProcess) => Partial<RolloutEngine>) =>
  (): { readonly ports: (ports: Ports, process: SimProcess) => Ports } => ({
    ports: (ports, process) => ({
      ...ports,
      rolloutEngine: async (config) => {
        const engine = await ports.rolloutEngine(config);
        return patched(engine, patch(engine, process));
      },
    }),
  });

const meshBug =
  (patch: (mesh: GradientMesh) => Partial<GradientMesh>) => (): { readonly ports: (ports: Ports) => Ports } => ({
    ports: (ports) => ({
      ...ports,
      gradientMesh: async (options) => {
        const mesh = await ports.gradientMesh(options);
        return patched(mesh, patch(mesh));
      },
    }),
  });

/** The array with the first bytes of a section: all of it, in a simulation. */
const firstOf = (section: SectionBytes): Uint8Array =>
  (section instanceof Uint8Array ? section : section[0]) as Uint8Array;

/** Of every run of this process: what no run may know. */
let samplesEver = 0;

/** Canaries in the handlers. */
export const handlerCanaries: readonly Canary[] = [
  {
    name: "apply-before-commit",
    says: "the candidate becomes live when it is computed",
    profile: "quiet",
    seedsMax: 5,
    make: policyBug((engine) => ({
      candidate: () => {
        const candidate = engine.candidate();
        engine.promote();
        return candidate;
      },
      promote: () => {},
    })),
  },
  {
    name: "slow-waits-again",
    says: "a trainer that computes slowly waits as long again after each shard",
    profile: "quiet",
    seedsMax: 10,
    shape: (scenario) => ({
      ...scenario,
      safetyMs: scenario.limitMs,
      work: { ...scenario.work, shardMs: 1_000, responseMs: 500 },
    }),
    stage: ({ limitMs }) => [{ kind: "slow", node: "policy-1", atMs: 5_000, forMs: limitMs, factor: 1.5 }],
    make: policyBug((engine, process) => ({
      accumulate: async (...shard) => {
        const fromMs = process.world.nowMs;
        const done = await engine.accumulate(...shard);
        if (process.slowdown > 1) await process.sleep(process.world.nowMs - fromMs);
        return done;
      },
    })),
  },
  {
    name: "candidate-not-reset",
    says: "a step that is tried again goes on from the candidate of the last try",
    profile: "swarm",
    seedsMax: 60,
    stage: (scenario) =>
      repeated(scenario, 20_000, (atMs) => ({
        kind: "failpoint",
        point: "policy.stage",
        nth: 7 * (atMs / 20_000),
        action: { type: "error" },
      })),
    make: policyBug((engine) => {
      let hasCandidate = false;
      return {
        begin: () => {
          if (!hasCandidate) engine.begin();
          hasCandidate = true;
        },
        discard: () => {},
        restore: (source) => {
          hasCandidate = false;
          return engine.restore(source);
        },
        promote: () => {
          hasCandidate = false;
          engine.promote();
        },
      };
    }),
  },
  {
    name: "optimizer-not-restored",
    says: "a joiner takes the weights and leaves the optimizer's state behind",
    profile: "kills",
    seedsMax: 20,
    make: policyBug((engine) => ({
      restore: ({ weights, optimizer: { bytes } }) =>
        engine.restore({ weights, optimizer: { bytes, copyTo: async () => {} } }),
    })),
  },
  {
    name: "non-finite-taken-for-zero",
    says: "an update that is not finite is applied",
    profile: "quiet",
    seedsMax: 60,
    make: policyBug((engine) => ({
      stage: async (gradient, options) => {
        const staged = await engine.stage(gradient, options);
        if (!staged.finite) new Float32Array(firstOf(engine.candidate().weights).buffer)[0] = Number.NaN;
        return { ...staged, finite: true };
      },
    })),
  },
  {
    name: "placeholder-in-the-loss",
    says: "aborted trajectories are learned from",
    profile: "quiet",
    seedsMax: 5,
    make: policyBug((engine) => ({
      accumulate: (samples, options) => {
        const placeholder = {
          tokens: Int32Array.of(0, 0),
          promptLength: 1,
          logprobs: Float32Array.of(0),
          advantage: 1,
        };
        return engine.accumulate([...samples, placeholder], options);
      },
    })),
  },
  {
    name: "sum-depends-on-mesh",
    says: "the gradient is divided by the number of ranks",
    profile: "kills",
    seedsMax: 30,
    make: meshBug((mesh) => ({
      result: (window) => mesh.result(window).map((value) => value / mesh.worldSize),
    })),
  },
  {
    name: "shard-forgotten",
    says: "the last shard of a rank does not enter the sum",
    profile: "kills",
    seedsMax: 30,
    make: meshBug((mesh) => ({
      reduce: (options) => mesh.reduce({ ...options, written: options.written.slice(0, -1) }),
    })),
  },
  {
    name: "old-mesh-kept",
    says: "a new epoch goes on with the communicator of the last one",
    profile: "kills",
    seedsMax: 20,
    make: () => {
      const meshes = new Map<SimProcess, GradientMesh>();
      return {
        ports: (ports, process) => ({
          ...ports,
          gradientMesh: async (options) => {
            const mesh = meshes.get(process) ?? (await ports.gradientMesh(options));
            meshes.set(process, mesh);
            return patched(mesh, { epoch: options.epoch, close: () => {}, abort: () => {} });
          },
        }),
      };
    },
  },
  {
    name: "reduces-in-the-old-mesh",
    says: "a member joins the new mesh and goes on to sum in the first one",
    profile: "kills",
    seedsMax: 30,
    make: () => {
      const meshes = new Map<SimProcess, GradientMesh>();
      return {
        ports: (ports, process) => ({
          ...ports,
          gradientMesh: async (options) => {
            const mesh = await ports.gradientMesh(options);
            const first = meshes.get(process) ?? mesh;
            meshes.set(process, first);
            return patched(mesh, {
              shard: (...of) => first.shard(...of),
              reduce: (given) => first.reduce(given),
              result: (window) => first.result(window),
            });
          },
        }),
      };
    },
  },
  {
    name: "rank-off-by-one",
    says: "a member takes the rank of its neighbour",
    profile: "quiet",
    seedsMax: 10,
    make: () => ({
      ports: (ports) => ({
        ...ports,
        gradientMesh: (options) =>
          ports.gradientMesh({ ...options, rank: (options.rank + 1) % options.members.length }),
      }),
    }),
  },
  {
    name: "held-before-pulled",
    says: "a replica says that it holds a version when it begins to pull it",
    profile: "quiet",
    seedsMax: 5,
    make: () => ({
      ports: (ports) => ({
        ...ports,
        pull: async () => ({ bytes: 0, durationMs: 0, via: "tcp", from: "nobody", wireBytes: 0, base: null }),
        map: async () => ({
          ...{ bytes: 0, durationMs: 0, via: "tcp", from: "nobody", wireBytes: 0, base: null },
          ...{ copyTo: async () => {}, release: () => {} },
        }),
      }),
    }),
  },
  {
    name: "swap-forgotten",
    says: "a rollout replica names the new version and samples with the old bytes",
    profile: "quiet",
    seedsMax: 5,
    make: rolloutBug((engine) => {
      let first: Uint8Array | null = null;
      return {
        updateWeights: (update) => {
          if (update.via !== "inline") return engine.updateWeights(update);
          const copyTo = async (into: Uint8Array): Promise<void> => {
            if (first) into.set(first);
            else await update.copyTo(into);
            first ??= into.slice();
          };
          return engine.updateWeights({ ...update, copyTo });
        },
      };
    }),
  },
  {
    name: "sampler-has-a-place",
    says: "what is sampled depends on who samples it",
    profile: "kills",
    seedsMax: 30,
    make: rolloutBug((engine, process) => ({
      generate: (requests, signal) =>
        engine.generate(
          requests.map((request) => ({ ...request, seed: request.seed + (process.pid % 7) })),
          signal,
        ),
    })),
  },
  {
    name: "sampler-has-neighbours",
    says: "what is sampled depends on what is sampled with it",
    profile: "swarm",
    seedsMax: 40,
    make: rolloutBug((engine) => ({
      generate: (requests, signal) =>
        engine.generate(
          requests.map((request) => ({ ...request, seed: request.seed + requests.length })),
          signal,
        ),
    })),
  },
  {
    name: "sampler-remembers",
    says: "what is sampled depends on how much was sampled before, in this run and in others",
    profile: "quiet",
    seedsMax: 5,
    isRepeated: true,
    make: rolloutBug((engine) => ({
      generate: (requests, signal) => {
        samplesEver += 1;
        return engine.generate(
          requests.map((request) => ({ ...request, seed: request.seed + samplesEver })),
          signal,
        );
      },
    })),
  },
  {
    name: "flips-after-its-vote",
    says: "a bit of the candidate changes between the vote and the moment it becomes live",
    profile: "quiet",
    seedsMax: 5,
    make: policyBug((engine) => ({
      promote: () => {
        const weights = firstOf(engine.candidate().weights);
        weights[0] = (weights[0] ?? 0) ^ 1;
        engine.promote();
      },
    })),
  },
  {
    name: "flips-between-steps",
    says: "a bit of one replica's live weights changes before a step begins",
    profile: "quiet",
    seedsMax: 10,
    make: policyBug((engine, { node }) => ({
      begin: () => {
        const weights = firstOf(engine.state().weights);
        if (node === "policy-1") weights[0] = (weights[0] ?? 0) ^ 1;
        engine.begin();
      },
    })),
  },
  {
    name: "segment-of-another-version",
    says: "a response is stamped with a version that did not sample it",
    profile: "quiet",
    seedsMax: 5,
    make: rolloutBug((engine) => ({
      generate: async (requests, signal) => {
        const rows = await engine.generate(requests, signal);
        return rows.map((row) => row.map((one) => ({ ...one, versionAtStart: one.versionAtStart + 1 })));
      },
    })),
  },
  {
    name: "checkpoint-not-written",
    says: "a checkpoint is reported and was never written",
    profile: "quiet",
    seedsMax: 10,
    make: () => ({
      ports: (ports) => ({
        ...ports,
        checkpointStore: async (options) => {
          const store = await ports.checkpointStore(options);
          const cleared = Promise.resolve([]);
          const ghost = { name: "ghost", path: "/checkpoints/ghost", manifestDigest: "0", bytes: 0, cleared };
          return { ...store, save: async () => ghost };
        },
      }),
    }),
  },
  {
    name: "wrong-checkpoint-restored",
    says: "the initial weights are restored in place of the checkpoint",
    profile: "kills",
    seedsMax: 60,
    make: () => ({
      ports: (ports) => {
        let initial: { readonly weights: Uint8Array; readonly optimizer: Uint8Array } | null = null;
        return {
          ...ports,
          policyEngine: async (config, training) => {
            const engine = await ports.policyEngine(config, training);
            const { weightsBytes, optimizerBytes } = engine.info();
            initial ??= { weights: new Uint8Array(weightsBytes), optimizer: new Uint8Array(optimizerBytes) };
            return engine;
          },
          loadCheckpoint: async (path) => {
            const loaded = await ports.loadCheckpoint(path);
            const sections = loaded.sections.map((part) => ({ ...part, bytes: initial?.[part.name] ?? part.bytes }));
            return { ...loaded, sections };
          },
        };
      },
    }),
  },
];
