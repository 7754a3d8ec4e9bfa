/** Where the CUDA driver and NCCL are looked for. */
import { readdirSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/** Where to find the libraries of a GPU host. */
export interface GpuLibraries {
  /** Path of the CUDA driver `libcuda`; absent: the linker finds it. */
  readonly cuda?: string;
  /** Paths or names of NCCL, in the order in which they are tried. */
  readonly nccl: readonly string[];
}

/**
 * Where a process with this environment finds them. NCCL: `MUSTER_NCCL_PATH` alone when it is set; else `libnccl.so.2` as the linker finds it, then
 * the wheels `nvidia-nccl-*` of the active Python environment, of each `python3` on the PATH, and of the system's. The driver: `MUSTER_CUDA_PATH`, or
 * as the linker finds it.
 */
export function gpuLibrariesOf(env: Readonly<Record<string, string | undefined>>): GpuLibraries {
  const { MUSTER_CUDA_PATH: cuda, MUSTER_NCCL_PATH: nccl } = env;
  return {
    ...(cuda ? { cuda } : {}),
    nccl: nccl ? [nccl] : ["libnccl.so.2", ...pythonRootsOf(env).flatMap(ncclOfPython)],
  };
}

function pythonRootsOf({
  VIRTUAL_ENV,
  CONDA_PREFIX,
  HOME,
  PATH = "",
}: Readonly<Record<string, string | undefined>>): string[] {
  const onPath = PATH.split(delimiter).filter((folder) => namesIn(folder).includes("python3"));
  const roots = [VIRTUAL_ENV, CONDA_PREFIX, HOME && join(HOME, ".local"), ...onPath.map(dirname), "/usr/local", "/usr"];
  return [...new Set(roots.filter((root): root is string => Boolean(root)))];
}

function ncclOfPython(root: string): string[] {
  const lib = join(root, "lib");
  return namesIn(lib)
    .filter((name) => /^python3(\.\d+)?$/.test(name))
    .flatMap((name) =>
      ["site-packages", "dist-packages"].map((packages) => join(lib, name, packages, "nvidia/nccl/lib")),
    )
    .filter((folder) => namesIn(folder).includes("libnccl.so.2"))
    .map((folder) => join(folder, "libnccl.so.2"));
}

/** A folder that is not there, or not to be read, has no names. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
