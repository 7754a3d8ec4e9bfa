/** Ending of a process that is found in `/proc`, whoever started it. */

/** Ends a process at once. @returns False for one that is gone, or that runs as somebody else, as below sudo, and is not ours to end. */
export function endProcess(pid: number): boolean {
  try {
    return process.kill(pid, "SIGKILL");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH" || code === "EPERM") return false;
    throw error;
  }
}
