/** The page's way to its server: one stream of server-sent events that comes back by itself, and commands. */
import type { SeenStatus } from "@muster/client";
import type { Fact } from "../view/facts.ts";
import { fold, type JobFold } from "../view/fold.ts";

/** All that the page shows. */
export interface DashboardState {
  readonly job: string;
  readonly isReadOnly: boolean;
  readonly known: JobFold;
  readonly status: SeenStatus | null;
  /** When the controller was last heard to write one, by the clock of this page: clocks of two machines are never compared. */
  readonly statusAtMs: number;
}

/** How the page stands with its server. */
export type Link = "connecting" | "open" | "lost" | "refused";

const againMs = [500, 1_000, 2_000, 5_000] as const;
/** The server sends the status once a second; one that is silent for longer is gone, whatever the connection says. */
const silentMs = 10_000;

/** What a feed tells. */
export interface FeedListener {
  readonly state: (state: DashboardState) => void;
  readonly link: (link: Link, reason: string) => void;
}

/** Reads the stream until the signal is aborted, and comes back after each loss. */
export async function follow(token: string, listener: FeedListener, signal: AbortSignal): Promise<void> {
  for (let lost = 0; !signal.aborted; lost += 1) {
    listener.link(lost === 0 ? "connecting" : "lost", "");
    try {
      const isRefused = await readOnce(token, listener, signal, () => {
        lost = 0;
      });
      if (isRefused) return;
    } catch (error) {
      listener.link("lost", error instanceof Error ? error.message : String(error));
    }
    await new Promise((resolve) => setTimeout(resolve, againMs[Math.min(lost, againMs.length - 1)]));
  }
}

/** Reads one stream to its end. @returns True when the server does not take the token. */
async function readOnce(
  token: string,
  listener: FeedListener,
  signal: AbortSignal,
  opened: () => void,
): Promise<boolean> {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), silentMs);
  try {
    const answer = await fetch("/api/v1/stream", {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    if (answer.status === 401) {
      listener.link("refused", await reasonOf(answer));
      return true;
    }
    if (!answer.ok || !answer.body) throw new Error(await reasonOf(answer));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let state: DashboardState | null = null;
    let unread = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), silentMs);
      unread += value;
      const blocks = unread.split("\n\n");
      unread = blocks.pop() ?? "";
      for (const block of blocks) state = taken(state, block);
      if (state === null) continue;
      opened();
      listener.link("open", "");
      listener.state(state);
    }
  } finally {
    clearTimeout(timer);
  }
}

function taken(before: DashboardState | null, block: string): DashboardState | null {
  const [, event, data] = /^event: (\w+)\ndata: (.*)$/s.exec(block) ?? [];
  if (event === undefined || data === undefined) return before;
  const value = JSON.parse(data) as unknown;
  const statusAtMs = Date.now();
  if (event === "view") return { ...(value as Omit<DashboardState, "statusAtMs">), statusAtMs };
  if (before === null) return null;
  if (event === "fact") return { ...before, known: fold(before.known, value as Fact) };
  const status = value as SeenStatus | null;
  if (status === null || status.atMs === before.status?.atMs) return before;
  return { ...before, status: { ...status, ageMs: 0 }, statusAtMs };
}

/** Gives a command. @returns What became of it so far, in words. @throws Error with the server's sentence. */
export async function give(token: string, kind: string, body: object): Promise<string> {
  const answer = await fetch(`/api/v1/commands/${kind}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const said = (await answer.json()) as {
    readonly outcome?: string;
    readonly detail?: string;
    readonly error?: string;
  };
  if (!answer.ok) throw new Error(said.error ?? said.detail ?? `the server answers ${answer.status}`);
  return `${said.outcome ?? "sent"}: ${said.detail ?? ""}`;
}

async function reasonOf(answer: Response): Promise<string> {
  try {
    return ((await answer.json()) as { readonly error?: string }).error ?? `the server answers ${answer.status}`;
  } catch {
    return `the server answers ${answer.status}`;
  }
}
