/** The PyTorch of this machine, for tests that compute with it. */
import { spawnSync } from "node:child_process";

/** The python3 here that has torch. */
export const torchPython = ["python3", "/usr/bin/python3"].find(
  (name) => spawnSync(name, ["-c", "import torch"]).status === 0,
);

/** Why nothing is computed with it. */
export const noTorch = "no python3 here has torch";
