/** Commands on a terminal: a real pseudo-terminal, which Python's standard library opens, and what its window then shows. */
import { spawn, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../../cli/bin/muster.mjs", import.meta.url));

/** Why there is no terminal for tests; `null` when there is one. */
export const ptyMissing: string | null =
  spawnSync("python3", ["-c", "import pty, termios"]).status === 0
    ? null
    : "no python3 with the module pty: what a terminal shows is not looked at";

/** Size of a window. */
export interface WindowSize {
  readonly rows: number;
  readonly columns: number;
}

/** A command on a terminal. */
export interface OnTerminal {
  /** All that it wrote. */
  output(): string;
  resize(size: WindowSize): void;
  /** Types, e.g. `\u0003` for Ctrl-C. */
  type(text: string): void;
  /** Ends the terminal as its window does: the shell tells the command, and the kernel once more. */
  hangUp(): void;
  readonly ended: Promise<number | null>;
  kill(): void;
}

const helper = `
import fcntl, os, pty, select, signal, struct, sys, termios
def size(fd, rows, columns): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
rows, columns = int(sys.argv[1]), int(sys.argv[2])
pid, fd = pty.fork()
if pid == 0:
    size(0, rows, columns)
    os.execvp(sys.argv[3], sys.argv[3:])
size(fd, rows, columns)
while True:
    ready, _, _ = select.select([fd, 0], [], [])
    if fd in ready:
        try: data = os.read(fd, 65536)
        except OSError: data = b""
        if not data: break
        os.write(1, data)
    if 0 in ready:
        word = os.read(0, 4096)
        if not word: os.kill(pid, 9); break
        for line in word.decode().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "size": size(fd, *map(int, rest.split()))
            if kind == "type": os.write(fd, bytes.fromhex(rest))
            if kind == "hang": os.killpg(pid, signal.SIGHUP); os.close(fd); fd = None
        if fd is None: break
_, status = os.waitpid(pid, 0)
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)
`;

/** Starts `muster` on a terminal of its own. */
export function startOnTerminal(
  args: readonly string[],
  { rows, columns }: WindowSize,
  env: Readonly<Record<string, string | undefined>> = {},
): OnTerminal {
  const command = ["-c", helper, `${rows}`, `${columns}`, process.execPath, program, ...args];
  const { NO_COLOR: _none, FORCE_COLOR: _force, ...inherited } = process.env;
  const child = spawn("python3", command, {
    env: { ...inherited, TERM: "xterm-256color", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  child.stdin.on("error", () => {});
  return {
    output: () => output,
    resize: (size) => void child.stdin.write(`size ${size.rows} ${size.columns}\n`),
    type: (text) => void child.stdin.write(`type ${Buffer.from(text).toString("hex")}\n`),
    hangUp: () => void child.stdin.write("hang \n"),
    ended: new Promise((resolve) => child.once("close", (code) => resolve(code))),
    // The end of its input makes the helper end the command.
    kill: () => void child.stdin.end(),
  };
}

/** What the window shows after such output, the oldest row first, with what has scrolled away above it. */
export function windowOf(output: string, { rows, columns }: WindowSize): readonly string[] {
  const lines: string[] = [""];
  let row = 0;
  let column = 0;
  const top = (): number => Math.max(0, lines.length - rows);
  const set = (at: number, text: string): void => {
    lines[at] = text;
  };
  const down = (): void => {
    row += 1;
    if (row === lines.length) lines.push("");
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the sequences it reads
  for (const [token, sequence] of output.matchAll(/\u001b\[([?\d;]*[a-zA-Z])|[\r\n]|[^\u001b\r\n]/gu)) {
    if (token === "\r") column = 0;
    else if (token === "\n") down();
    else if (sequence === "H") [row, column] = [top(), 0];
    else if (sequence === "K") set(row, (lines[row] ?? "").slice(0, column));
    else if (sequence === "J") {
      set(row, (lines[row] ?? "").slice(0, column));
      for (let below = row + 1; below < lines.length; below++) set(below, "");
    } else if (sequence?.endsWith("A")) row = Math.max(top(), row - Number(sequence.slice(0, -1) || 1));
    else if (sequence === undefined) {
      if (column === columns) {
        down();
        column = 0;
      }
      const line = (lines[row] ?? "").padEnd(column);
      set(row, line.slice(0, column) + token + line.slice(column + 1));
      column += 1;
    }
  }
  return lines;
}
