// What only a machine with a GPU shows: npm run test:gpu. Figures of the native part, the tests of device memory against the real driver and NCCL, and a
// job whose trainers compute in PyTorch on the GPU while one of them is killed. Without a GPU it says so and succeeds.
import { spawnSync } from "node:child_process";

/** @param {string} command @param {readonly string[]} words @param {NodeJS.ProcessEnv} env */
const run = (command, words, env = {}) =>
  spawnSync(command, words, {
    env: { ...process.env, ...env },
    stdio: ["inherit", "pipe", "inherit"],
    encoding: "utf8",
  });
/** @param {string} project @param {readonly string[]} files @param {NodeJS.ProcessEnv} env */
const vitest = (project, files, env) =>
  run("npx", ["vitest", "run", "--project", project, ...files], { ...env, NO_COLOR: "1" });

/** @param {string} title @param {ReturnType<typeof run>} done */
function part(title, { status, stdout }) {
  console.log(`${title}\n${stdout}`);
  if (status !== 0) process.exitCode = 1;
}

const figures = run("sh", ["native/test/run.sh", "gpu"]);
part("figures", figures);
if (figures.status === 0 && !figures.stdout.includes("skipped:")) {
  const files = ["shelf", "copies", "communicator"].map((name) => `packages/collectives/test/gpu-${name}.test.ts`);
  part("device memory and collectives", vitest("unit", files, { MUSTER_TEST_GPU: "1" }));
  const python = run("python3", ["-c", "import torch; assert torch.cuda.is_available()"]);
  if (python.status === 0)
    part("trainers", vitest("e2e", ["test/e2e/torch-trainer.test.ts"], { MUSTER_TEST_TORCH_DEVICE: "cuda" }));
  else console.log("skipped: python3 has no torch that sees the GPU");
}
