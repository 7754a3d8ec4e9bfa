/** Ends a server whose owner ended without having done so, even by SIGKILL: then the input of a shell closes without a word. */
import { spawn } from "node:child_process";
import type { ServerFiles } from "./files.ts";

/** Who watches over one run of a server. */
export interface ServerGuard {
  /** Which process to end. An owner that is killed before it says so leaves the file in which the server writes its id. */
  watch(pid: number): void;
  /** The server has ended, or was never there. @returns Resolves when nobody watches any more. */
  dismiss(): Promise<void>;
}

/**
 * Waits for the id of the server and for the word that it has ended. When the input closes before, asks the server to end, and kills it when it
 * has not within two seconds: one that is frozen hears nothing else. $0 is the file with the id, which a server that is only starting writes soon.
 */
const script = `
read -r pid || pid=
read -r word && exit
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do [ "$pid" ] && break; sleep 0.2; pid=$(cat "$0"); done
[ "$pid" ] && kill "$pid" || exit 0
for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; kill -0 "$pid" || exit 0; done
kill -9 "$pid"`;

/** Starts to watch, before there is a server: its owner may be killed at any moment. */
export function startGuard({ pid: pidFile, config }: ServerFiles): ServerGuard {
  // A session of its own, as that of the server: a signal to the group of the owner must not end who watches.
  const shell = spawn("sh", ["-c", script, pidFile, config], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  shell.stdin.once("error", () => {});
  const isOver = new Promise<void>((resolve) => {
    shell.once("exit", () => resolve());
    // Without a shell nobody watches: whoever uses the directory next ends what was left in it.
    shell.once("error", () => resolve());
  });
  let told = "none\n";
  return {
    watch: (pid) => {
      told = "";
      shell.stdin.write(`${pid}\n`);
    },
    dismiss: async () => {
      shell.stdin.end(`${told}ended\n`);
      await isOver;
    },
  };
}
