/** A counter that does on request what machines do: remembers, asks for effects, sets timers, ends. */
import type { Logic, TimerEffect } from "@muster/machines";
import type { EffectHandlers } from "../../src/index.ts";
import { turns } from "../helpers.ts";

/** What a counter is told. */
export type Event =
  | { readonly type: "add"; readonly n: number }
  | { readonly type: "ignored" }
  | { readonly type: "say"; readonly text: string }
  | { readonly type: "load"; readonly key: string }
  | { readonly type: "loaded"; readonly key: string }
  | { readonly type: "arm"; readonly id: string; readonly delayMs: number }
  | { readonly type: "disarm"; readonly id: string }
  | { readonly type: "rang"; readonly id: string }
  | { readonly type: "finish" }
  | { readonly type: "explode" };
/** What it asks for. */
export type Effect =
  | { readonly type: "speak"; readonly text: string }
  | { readonly type: "fetch"; readonly key: string }
  | TimerEffect<Event>;
/** What it remembers. */
export interface Snapshot {
  readonly value: string;
  readonly status: "active" | "done";
  readonly sum: number;
  readonly seen: readonly string[];
}

/** Before its first event. */
export const start: Snapshot = { value: "counting", status: "active", sum: 0, seen: [] };

/** The counter. */
export const logic: Logic<null, Event, Snapshot, Effect> = {
  id: "counter",
  init: () => ({ snapshot: start, effects: [] }),
  step(snapshot, event) {
    switch (event.type) {
      case "add":
        return { snapshot: { ...snapshot, sum: snapshot.sum + event.n }, effects: [] };
      case "say":
        return { snapshot, effects: [{ type: "speak", text: event.text }] };
      case "load":
        return { snapshot: { ...snapshot, value: "loading" }, effects: [{ type: "fetch", key: event.key }] };
      case "loaded":
        return { snapshot: { ...snapshot, value: "counting", seen: [...snapshot.seen, event.key] }, effects: [] };
      case "arm":
        return {
          snapshot,
          effects: [
            { type: "timer.start", id: event.id, delayMs: event.delayMs, event: { type: "rang", id: event.id } },
          ],
        };
      case "disarm":
        return { snapshot, effects: [{ type: "timer.cancel", id: event.id }] };
      case "rang":
        return { snapshot: { ...snapshot, seen: [...snapshot.seen, `rang ${event.id}`] }, effects: [] };
      case "finish":
        return { snapshot: { ...snapshot, status: "done", value: "over" }, effects: [{ type: "speak", text: "bye" }] };
      case "explode":
        throw new Error("no such transition");
      default:
        return { snapshot, effects: [] };
    }
  },
};

/** Tells it to add. */
export const add = (n: number): Event => ({ type: "add", n });

/** Tells it to speak. */
export const say = (text: string): Event => ({ type: "say", text });

/** Brings what is fetched two turns later. */
export const fetchLater: EffectHandlers<Effect, Event>["fetch"] = async ({ key }, { post }) => {
  await turns(2);
  post({ type: "loaded", key });
};
