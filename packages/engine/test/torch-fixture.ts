/** The PyTorch of this machine, for tests that compute with it. */
import { pythonThatRuns } from "@muster/testkit";

/** The python3 here that has torch. */
export const torchPython = pythonThatRuns("import torch");

/** Why nothing is computed with it. */
export const noTorch = "no python3 here has torch";
