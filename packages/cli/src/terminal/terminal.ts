/** What a standard stream can show: its size, whether its cursor can be moved, whether it has colours. */

/** A stream that people may read. */
export interface Terminal {
  /** False for files and pipes, and for terminals that obey no sequences. */
  readonly isLive: boolean;
  readonly hasColour: boolean;
  /** Width and height now; both change when the window does. */
  columns(): number;
  rows(): number;
  write(text: string): void;
  /** Calls back when the window has another size. @returns Stops the calls. */
  onResize(listener: () => void): () => void;
}

/** The part of a standard stream that is used here. */
interface Stream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
  on(event: "resize", listener: () => void): unknown;
  off(event: "resize", listener: () => void): unknown;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Looks at a stream. */
export function terminalOf(stream: Stream, env: Env): Terminal {
  const isTTY = stream.isTTY === true;
  return {
    isLive: isTTY && env.TERM !== "dumb",
    hasColour: hasColour(isTTY, env),
    // A terminal that does not know its size says 0.
    columns: () => stream.columns || 80,
    rows: () => stream.rows || 24,
    write: (text) => void stream.write(text),
    onResize(listener) {
      stream.on("resize", listener);
      return () => void stream.off("resize", listener);
    },
  };
}

/** `FORCE_COLOR` says yes (`0`, `false`: no) wherever it goes, `NO_COLOR` says no; otherwise a terminal that is not dumb has colours. */
function hasColour(isTTY: boolean, { FORCE_COLOR: force, NO_COLOR: none, TERM: kind }: Env): boolean {
  if (force !== undefined) return force !== "0" && force !== "false";
  if (none !== undefined && none !== "") return false;
  return isTTY && kind !== "dumb";
}
