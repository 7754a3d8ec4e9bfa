/**
 * The boundaries between packages and modules. Each rule is one sentence of the architecture; `npx vitest run --project repo` checks
 * them, and checks that a deliberately wrong import is reported. Packages resolve through the `source` condition, so the graph is
 * that of the sources whether or not they were built.
 */

/** What the sources of a package may import of the others. Only the packages named here may exist. */
const mayImport = {
  base: [],
  http: [],
  protocol: ["base"],
  tensors: ["base"],
  data: ["base", "protocol"],
  machines: ["base", "protocol"],
  transport: ["base", "protocol"],
  collectives: ["base", "protocol"],
  checkpoint: ["base", "protocol", "tensors"],
  engine: ["base", "protocol", "tensors", "data"],
  client: ["base", "protocol", "transport"],
  gateway: ["base", "http"],
  router: ["base", "http"],
  dashboard: ["base", "http", "protocol", "client"],
  runtime: ["base", "protocol", "machines", "transport"],
  actors: [
    "base",
    "protocol",
    "tensors",
    "data",
    "machines",
    "transport",
    "collectives",
    "checkpoint",
    "engine",
    "runtime",
  ],
  // The simulator only from composition/simulator.ts: rule no-dev-in-src.
  cli: [
    "base",
    "http",
    "protocol",
    "tensors",
    "data",
    "machines",
    "transport",
    "collectives",
    "checkpoint",
    "engine",
    "client",
    "gateway",
    "dashboard",
    "runtime",
    "router",
    "actors",
    "check",
    "sim",
  ],
  check: ["base", "protocol", "machines", "checkpoint", "engine", "actors"],
  sim: [
    "base",
    "protocol",
    "tensors",
    "data",
    "machines",
    "transport",
    "collectives",
    "checkpoint",
    "engine",
    "runtime",
    "actors",
    "check",
  ],
  testkit: [
    "base",
    "protocol",
    "tensors",
    "data",
    "machines",
    "transport",
    "collectives",
    "checkpoint",
    "engine",
    "runtime",
    "actors",
    "cli",
  ],
};
const development = "testkit|sim";
const layer2 = "machines|transport|collectives|checkpoint|engine";
const any = (names) => `(${names.join("|")})`;

/** A rule that forbids edges. */
const forbid = (name, comment, from, to) => ({ name, comment, severity: "error", from, to });

const layers = Object.entries(mayImport).map(([name, allowed]) =>
  forbid(
    "layers",
    `${name} may import only ${allowed.join(", ") || "nothing"} of the other packages`,
    { path: `^packages/${name}/src/` },
    { path: "^packages/", pathNot: `^packages/${any([name, ...allowed])}/` },
  ),
);

module.exports = {
  forbidden: [
    forbid("no-cycle", "Modules do not import each other in a circle.", {}, { circular: true }),
    forbid("resolvable", "Every import is found, by name or relative path.", {}, { couldNotResolve: true }),
    forbid(
      "source-condition",
      "Sources and tests read packages from their sources, never from dist; plain child processes of tests have no choice.",
      { path: "^packages/[^/]+/(src|test)/|^test/", pathNot: "/support/[^/]+\\.mjs$" },
      { path: "^packages/[^/]+/dist/" },
    ),
    ...layers,
    forbid(
      "entry-points-only",
      "Another package is entered through index.ts only; the embedded engine, workers, inference servers, the checks of engines and what not every process loads have entries of their own.",
      { path: "^(?:packages/([^/]+)|test|bench)/" },
      {
        path: "^packages/[^/]+/src/",
        pathNot: [
          "^packages/$1/",
          "^packages/[^/]+/src/(index|internal)\\.ts$",
          "^packages/engine/src/(embedded|worker|served)/index\\.ts$",
          "^packages/router/src/router-config\\.ts$",
          "^packages/base/src/first-names\\.ts$",
          "^packages/data/src/import-module\\.ts$",
          "^packages/(machines|actors)/src/controller/index\\.ts$",
          "^packages/actors/src/trajectories/index\\.ts$",
          "^packages/runtime/src/(process|config/index|observability/index)\\.ts$",
          "^packages/check/src/run/files\\.ts$",
        ],
      },
    ),
    forbid(
      "engines-behind-adapters",
      "Only the composition root names an engine, and tests and the simulator; everything else asks the registry.",
      {
        path: "^packages/([^/]+)/src/",
        pathNot:
          "^packages/(engine/src/(embedded/|hf-folder)|sim/|testkit/)|^packages/cli/src/composition/engines\\.ts$",
      },
      {
        path: "^packages/engine/src/(embedded/|hf-folder)",
        pathNot: "^packages/$1/src/embedded/index\\.ts$",
      },
    ),
    forbid(
      "entry-points-only",
      "The second entry point, internal.ts, is for tests, sim and testkit.",
      { path: "^packages/([^/]+)/src/", pathNot: `^packages/(${development})/` },
      { path: "^packages/[^/]+/src/internal\\.ts$", pathNot: "^packages/$1/" },
    ),
    forbid(
      "entry-points-only",
      "Another package is imported by its name, not by a path.",
      { path: "^packages/([^/]+)/" },
      { path: "^packages/", pathNot: "^packages/$1/", dependencyTypes: ["local"] },
    ),
    forbid(
      "machines-pure",
      "Machines decide; they import base, protocol and xstate, and no node built-in or library that does anything.",
      { path: "^packages/machines/src/" },
      { pathNot: ["^packages/(machines|base|protocol)/", "(^|/)node_modules/xstate/"] },
    ),
    forbid(
      "base-zero",
      "Base has no dependencies at all.",
      { path: "^packages/base/src/" },
      { pathNot: "^packages/base/src/" },
    ),
    forbid(
      "siblings",
      "The packages of layer 2 do not import each other.",
      { path: `^packages/(${layer2})/src/` },
      { path: `^packages/(${layer2})/`, pathNot: "^packages/$1/" },
    ),
    forbid(
      "nats-one-place",
      "Only transport/src/nats, testkit and the test of stock clients speak to the NATS client.",
      {
        path: "^(packages|test|bench)/",
        pathNot: "^packages/(transport/(src/nats|test)|testkit)/|^test/integration/stock-clients",
      },
      { path: "(^|/)node_modules/@nats-io/" },
    ),
    forbid(
      "native-one-place",
      "Only collectives loads the native addon.",
      { path: "^(packages|test)/", pathNot: "^packages/collectives/" },
      { path: "^native/|(^|/)node_modules/@muster/native" },
    ),
    forbid(
      "http-one-place",
      "Endpoints for the requests of others over HTTP are made by router, whose core stays without I/O.",
      { path: "^packages/router/src/core/" },
      { path: ["(^|/)node_modules/(fastify|undici)/", "^packages/router/src/(routes|upstream|sampler)/"] },
    ),
    forbid(
      "xstate-one-place",
      "Only machines, the simulator and tests import xstate.",
      { path: "^packages/", pathNot: "^packages/(machines/|sim/|[^/]+/test/)" },
      { path: "(^|/)node_modules/xstate/" },
    ),
    forbid(
      "pino-prom-one-place",
      "Only runtime/src/observability imports pino and prom-client.",
      { path: "^packages/[^/]+/src/", pathNot: "^packages/runtime/src/observability/" },
      { path: "(^|/)node_modules/(pino|prom-client)/" },
    ),
    forbid(
      "no-dev-in-src",
      "Sources do not import what only development has.",
      { path: "^packages/[^/]+/src/", pathNot: `^packages/((${development})/|cli/src/composition/simulator\\.ts$)` },
      { path: [`^packages/(${development})/`, "(^|/)node_modules/(vitest|fast-check)/", "^packages/[^/]+/test/"] },
    ),
  ],
  options: {
    doNotFollow: { path: ["(^|/)node_modules/", "(^|/)dist/"] },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["source", "import", "require", "node", "default", "types"],
      mainFields: ["module", "main", "types"],
      extensions: [".ts", ".mts", ".mjs", ".js", ".cjs", ".json", ".node", ".d.ts"],
    },
  },
};
