/** A question before a command is given. */
import { useEffect, useRef } from "preact/hooks";
import type { Question } from "./wish.ts";

interface Props {
  readonly question: Question;
  readonly onYes: () => void;
  readonly onNo: () => void;
}

export function Ask({ question: { title, text, yes, isGrave }, onYes, onNo }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onNo} aria-labelledby="ask">
      <h2 id="ask">{title}</h2>
      <p>{text}</p>
      <div class="choice">
        <button type="button" onClick={onNo}>
          Cancel
        </button>
        <button type="button" class={isGrave ? "grave" : "primary"} onClick={onYes}>
          {yes}
        </button>
      </div>
    </dialog>
  );
}
