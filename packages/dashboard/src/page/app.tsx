/** The whole page. */
import { useEffect, useState } from "preact/hooks";
import { standingOf } from "../view/standing.ts";
import { Ask } from "./ask.tsx";
import { Curves } from "./curves.tsx";
import { type DashboardState, follow, give, type Link } from "./feed.ts";
import { Figures } from "./figures.tsx";
import { Fleet } from "./fleet.tsx";
import { Commands, Epochs, News } from "./lists.tsx";
import { Replicas } from "./replicas.tsx";
import type { Wish } from "./wish.ts";

const secondMs = 1_000;

export function App({ token }: { readonly token: string }) {
  const [state, setState] = useState<DashboardState | null>(null);
  const [link, setLink] = useState<{ readonly state: Link; readonly reason: string }>({
    state: "connecting",
    reason: "",
  });
  const [wish, setWish] = useState<Wish | null>(null);
  const [said, setSaid] = useState<{ readonly text: string; readonly isBad: boolean } | null>(null);
  const nowMs = useNow();

  useEffect(() => {
    const ending = new AbortController();
    const listener = { state: setState, link: (state: Link, reason: string) => setLink({ state, reason }) };
    void follow(token, listener, ending.signal);
    return () => ending.abort();
  }, [token]);

  if (state === null) return <Empty link={link.state} reason={link.reason} />;
  const { known, isReadOnly, job } = state;
  const status = state.status && {
    ...state.status,
    ageMs: state.status.ageMs + Math.max(0, nowMs - state.statusAtMs),
  };
  // Events carry the controller's time, and so does its status.
  const standing = standingOf(status, known, status ? status.atMs + status.ageMs : nowMs);
  const ask = isReadOnly ? null : setWish;
  const act = async ({ kind, body }: Wish): Promise<void> => {
    setWish(null);
    try {
      setSaid({ text: await give(token, kind, body), isBad: false });
    } catch (error) {
      setSaid({ text: error instanceof Error ? error.message : String(error), isBad: true });
    }
  };

  return (
    <main>
      <header>
        <h1>{job}</h1>
        <p class={`link ${link.state}`} role="status">
          {linkWords[link.state]}
          {isReadOnly ? " · read only" : ""}
        </p>
      </header>
      <section class={`standing ${standing.state}`} aria-live="polite">
        <strong>{standingWords[standing.state]}</strong> <span>{standing.sentence}</span>
        {standing.holders.length > 0 && (
          <ul>
            {standing.holders.map((holder) => (
              <li key={holder}>{holder}</li>
            ))}
          </ul>
        )}
      </section>
      {said && (
        <p class={`said ${said.isBad ? "bad" : ""}`} role="alert">
          {said.text}{" "}
          <button type="button" onClick={() => setSaid(null)}>
            close
          </button>
        </p>
      )}
      <Figures status={status} known={known} />
      <Curves known={known} />
      {status && <Fleet status={status} ask={ask} />}
      {status && <Replicas status={status} known={known} ask={ask} />}
      <div class="pair">
        <Epochs epochs={known.epochs} />
        <Commands commands={known.commands} ask={ask} />
      </div>
      <News news={known.news} />
      {wish && <Ask question={wish.question} onNo={() => setWish(null)} onYes={() => void act(wish)} />}
    </main>
  );
}

const lost = "the page has lost its server; it comes back by itself";
const linkWords: Record<Link, string> = {
  ...{ open: "live", connecting: lost, lost },
  refused: "the server wants another token now; open the address that muster dashboard printed last",
};

const standingWords = {
  moving: "Moving.",
  slow: "Not moving.",
  waiting: "Waiting.",
  away: "Controller silent.",
  ended: "Over.",
};

function Empty({ link, reason }: { readonly link: Link; readonly reason: string }) {
  const words: Record<Link, string> = {
    ...{ connecting: "Connecting …", open: "Connecting …" },
    lost: `The server of this page does not answer; it is tried again. ${reason}`,
    refused: `The address of this page lacks its token: ${reason}. Use the address that muster dashboard printed.`,
  };
  return <main class="empty">{words[link]}</main>;
}

function useNow(): number {
  const [nowMs, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), secondMs);
    return () => clearInterval(timer);
  }, []);
  return nowMs;
}
