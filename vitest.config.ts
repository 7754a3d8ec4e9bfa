import { defineConfig } from "vitest/config";

// Tests read the TypeScript sources through the "source" condition, so they need no build.
const conditions = ["source", "module", "node", "import", "default"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    projects: [
      { extends: true, test: { name: "repo", include: ["test/repo/**/*.test.ts"], testTimeout: 60_000 } },
      { extends: true, test: { name: "unit", include: ["packages/*/test/**/*.test.ts"] } },
      {
        extends: true,
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 180_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
      // Minutes each: `npm run test:learning`, and not a part of `npm test`.
      {
        extends: true,
        test: {
          name: "learning",
          include: ["test/learning/**/*.test.ts"],
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: { name: "chaos", include: ["test/chaos/**/*.test.ts"], testTimeout: 60_000, fileParallelism: false },
      },
    ],
  },
});
