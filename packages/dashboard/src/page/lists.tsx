/** What happened: builds of the mesh, commands of operators, events. The newest stands first. */
import type { Epoch, JobFold, NewsLine } from "../view/fold.ts";
import { clock } from "./format.ts";
import type { Wish } from "./wish.ts";

const shownMax = 100;

export function Epochs({ epochs }: { readonly epochs: readonly Epoch[] }) {
  return (
    <section>
      <h2>Mesh epochs</h2>
      {epochs.length === 0 && <p class="none">No mesh was built yet.</p>}
      <ul class="lines">
        {epochs.toReversed().map(({ epoch, atMs, members }) => (
          <li key={epoch}>
            <time>{clock(atMs)}</time> <b>{epoch}</b> <span>{members.join(", ")}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface CommandsProps {
  readonly commands: JobFold["commands"];
  readonly ask: ((wish: Wish) => void) | null;
}

export function Commands({ commands, ask }: CommandsProps) {
  const cancel = (target: string): Wish => ({
    ...{ kind: "command.cancel", body: { target } },
    question: {
      title: `Cancel ${target}?`,
      text: "What it has done so far stays done.",
      yes: "Cancel it",
      isGrave: false,
    },
  });
  return (
    <section>
      <h2>Commands</h2>
      {commands.length === 0 && <p class="none">No command was given yet.</p>}
      <ul class="lines">
        {commands.toReversed().map(({ id, kind, by, outcome, detail, atMs }) => (
          <li key={id}>
            <time>{clock(atMs)}</time> <b class={outcome === "refused" ? "bad" : ""}>{outcome}</b> <span>{kind}</span>{" "}
            <span>{detail}</span>{" "}
            <small>
              {id} by {by}
            </small>
            {ask && outcome === "accepted" && (
              <button type="button" onClick={() => ask(cancel(id))}>
                Cancel
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

export function News({ news }: { readonly news: readonly NewsLine[] }) {
  return (
    <section>
      <h2>Events</h2>
      {news.length === 0 && <p class="none">No event yet.</p>}
      <ul class="lines events">
        {news
          .toReversed()
          .slice(0, shownMax)
          .map(({ seq, atMs, line, event }) => (
            <li key={seq} class={line.startsWith("!") ? "bad" : ""} title={event}>
              <time>{clock(atMs)}</time> <span>{line}</span>
            </li>
          ))}
      </ul>
    </section>
  );
}
