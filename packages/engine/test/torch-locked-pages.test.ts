/** Regions that the driver of a GPU does not lock: without a GPU, on a runtime that refuses and keeps its error for the next kernel, as CUDA's does. */
import { spawnSync } from "node:child_process";
import { beforeEach, expect, it, vi } from "vitest";
import { noTorch, torchPython } from "./torch-fixture.ts";
import { pathOf } from "./worker-fixture.ts";

vi.setConfig({ testTimeout: 60_000 });
beforeEach((context) => context.skip(torchPython === undefined, noTorch));

const script = `
import torch
from muster_worker.locked_pages import LockedPages

kept, asked, zeros = [], [], torch.zeros

class Runtime:
    def cudaHostRegister(self, address, count, flags):
        asked.append(count)
        kept.append(801)
        return 801

def kernel(*shape, device):
    if kept:
        raise RuntimeError(f"CUDA error: {kept.pop()}")
    return zeros(*shape)

torch.cuda.cudart, torch.zeros = Runtime, kernel
pages, region = LockedPages("cuda"), memoryview(bytearray(16))
for _ in range(2):
    pages.floats(region)
    torch.zeros(1, device="cuda")
print(asked)
`;

it("a region that is not locked is tried once, and fails nothing that is computed after it", () => {
  const env = { ...process.env, PYTHONPATH: pathOf("python"), PYTHONDONTWRITEBYTECODE: "1" };
  const done = spawnSync(String(torchPython), ["-c", script], { env, encoding: "utf8" });
  expect(done.stderr).toMatch(/^muster_worker: 16 bytes can not be locked \(801\): copies to the GPU are slower\n$/);
  expect(done.stdout).toBe("[16]\n");
});
