/** The worker of the examples under every check of engines: each starts Python anew, which takes a tenth of a second. */
import { needsOfTask, taskOf } from "@muster/data";
import { beforeEach, describe, expect, it } from "vitest";
import { engineChecks } from "../src/compliance/index.ts";
import { describedIn } from "../src/worker/description.ts";
import { workerAdapterOf } from "../src/worker/index.ts";
import { openWorker } from "../src/worker/open-link.ts";
import { workerOptionsOf } from "../src/worker/options.ts";
import { hasPython, noPython, pathOf, pythonWorker } from "./worker-fixture.ts";

const workerAdapter = workerAdapterOf(process.env);

it("a hello names losses: those that nobody knows here are of a newer worker, and an older one names none", () => {
  const tensors = [{ name: "w", dtype: "f32", shape: [2], offsetBytes: 0 }];
  const self = { type: "hello", protocol: 1, roles: ["policy"], build: "b", deterministic: true };
  const hello = { ...self, modelId: "m", vocab: 9, maxContext: 9, tensors };
  expect(describedIn([{ ...hello, losses: ["stale", "of-tomorrow", "gspo"] }])).toMatchObject({
    losses: ["gspo", "stale"],
  });
  expect(describedIn([hello])).toMatchObject({ losses: [] });
  expect(() => describedIn([{ ...hello, losses: ["gspo", 7] }])).toThrow(/its hello is wrong in losses\.1/);
});

describe("the worker examples/python-worker", () => {
  beforeEach((context) => context.skip(!hasPython, noPython));

  const options = pythonWorker("python-worker/echo.py");
  const checks = engineChecks({ adapter: workerAdapter, options, needs: needsOfTask(taskOf("dates")) });
  it.each(checks)("$says", ({ run }) => run());

  it("of 5,000 tensors sends their table in pages", () => {
    const grown = "lambda rows, real=s.table_of: real(rows + [(f't{i}', 'f32', [1]) for i in range(4999)])";
    const program = `import runpy, muster_worker as s; s.table_of = ${grown}; runpy.run_path('${pathOf("examples/python-worker/echo.py")}', run_name='__main__')`;
    const table = workerAdapter.schema.parse({ ...options, command: `python3 -c "${program}"` });
    const { tensors } = workerAdapter.describe(table as never, needsOfTask(taskOf("dates")));
    expect(tensors).toHaveLength(5_000);
    expect(tensors.at(-1)).toMatchObject({ name: "t4998", sizeBytes: 4 });
  });

  it("says which answer it can not send, and goes on", async () => {
    const odd = "lambda *_: {'klSum': float('nan')}";
    const program = `import runpy, muster_worker.service as s; s._Service._do_odd = ${odd}; runpy.run_path('${pathOf("examples/python-worker/echo.py")}', run_name='__main__')`;
    const table = workerAdapter.schema.parse({ ...options, command: `python3 -c "${program}"` });
    const { link, regions } = await openWorker(
      "rollout",
      workerOptionsOf(table as Parameters<typeof workerOptionsOf>[0], process.env),
      needsOfTask(taskOf("dates")),
    );
    for (const _ of [1, 2]) await expect(link.call("odd", {})).rejects.toThrow(/can not be sent: .*not JSON compliant/);
    await link.close();
    await regions.close();
  });
});
