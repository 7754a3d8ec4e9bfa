/** The devices of a host: which there are, and how a process is told which of them it has. Linux, NVIDIA. */
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { deviceSchema } from "@muster/protocol";
import { isMissing } from "./proc.ts";

/** The variable in which CUDA is told which devices there are for a process. */
const visible = "CUDA_VISIBLE_DEVICES";

/** The variable in which Muster tells a process the same. */
const devicesVariable = "MUSTER_DEVICES";

type Environment = Readonly<Record<string, string | undefined>>;

/** Where devices are looked for. */
export interface DeviceSources {
  /** Environment whose `CUDA_VISIBLE_DEVICES` says what this host gives away, and in whose `PATH` `nvidia-smi` is looked for. */
  readonly env: Environment;
  /** Root of `/dev`. Default `/`. */
  readonly root?: string;
}

/**
 * The environment of a process with these devices; that of its node where it is told of none. Numbers of devices mean those of `nvidia-smi`, unless
 * the node's own environment says which order it means. Pure.
 */
export function environmentOf(env: Environment, devices: readonly string[] | null): Environment {
  if (devices === null) return env;
  const named = devices.join(",");
  return { CUDA_DEVICE_ORDER: "PCI_BUS_ID", ...env, [visible]: named, [devicesVariable]: named };
}

/** The devices of this host that its node may give away: those that it was left itself, else those of the driver. None is no error. */
export async function findDevices({ env, root = "/" }: DeviceSources): Promise<readonly string[]> {
  const left = env[visible];
  if (left !== undefined) return firstDevices(left);
  return (await askDriver(env)) ?? numbersIn(join(root, "dev"));
}

const isDevice = (name: string): boolean => deviceSchema.safeParse(name).success;

/** What comes after a name of no device is not there for CUDA either. */
function firstDevices(text: string): readonly string[] {
  const names = text.split(",").map((name) => name.trim());
  const end = names.findIndex((name) => !isDevice(name));
  return end < 0 ? names : names.slice(0, end);
}

const driverDeadlineMs = 8_000;

/** `null` where there is no driver to ask, or it does not answer. */
function askDriver(env: Environment): Promise<readonly string[] | null> {
  const args = ["--query-gpu=index", "--format=csv,noheader"];
  const how = { env, timeout: driverDeadlineMs, killSignal: "SIGKILL" } as const;
  return new Promise((resolve) => {
    execFile("nvidia-smi", args, how, (error, out) => {
      resolve(
        error === null
          ? out
              .split("\n")
              .map((line) => line.trim())
              .filter(isDevice)
          : null,
      );
    });
  });
}

/** Files of devices, such as `/dev/nvidia0`. */
function numbersIn(folder: string): readonly string[] {
  const found = namesIn(folder).flatMap((name) => /^nvidia(\d+)$/.exec(name)?.[1] ?? []);
  return found.sort((a, b) => Number(a) - Number(b));
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
