import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { z } from "../../packages/protocol/src/index.ts";
import { root } from "./checks/repository.ts";
import { asyncApiOf } from "./reference/asyncapi.ts";
import { loadReferenceData } from "./reference/load.ts";

interface Document {
  readonly channels: Readonly<Record<string, { readonly address: string }>>;
  readonly operations: Readonly<Record<string, { readonly channel: { readonly $ref: string } }>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

describe("the AsyncAPI document", async () => {
  const data = await loadReferenceData();
  const document = asyncApiOf(data) as unknown as Document;
  const golden = JSON.parse(readFileSync(join(root, "packages/protocol/test/golden/v1.json"), "utf8")) as Readonly<
    Record<string, string>
  >;
  /** What a reader makes of a schema of the document alone. */
  const readerOf = (name: string) => z.fromJSONSchema(document.components.schemas[name] as never);

  it("has a channel for every event and every command of an operator, at the subject that Muster uses", () => {
    const kinds = Object.entries(data.messages);
    const events = kinds
      .filter(([, { direction }]) => direction === "event")
      .map(([kind]) => `muster.{job}.events.${kind}`);
    const said = kinds.filter(([, { from }]) => (from as readonly string[]).includes("operator"));
    const commands = said.map(([kind]) => `muster.{job}.reports.operator.{id}.${kind}`);
    const addresses = Object.values(document.channels).map(({ address }) => address);
    expect(addresses.toSorted()).toEqual([...events, ...commands, "$KV.muster-{job}.status"].toSorted());
  });

  it("refers to nothing that it has not", () => {
    const refs = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path as string);
    expect(refs.length).toBeGreaterThan(50);
    for (const path of new Set(refs)) {
      const names = path.split("/").map((name) => name.replace("~1", "/"));
      expect(
        names.reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], document),
        path,
      ).toBeDefined();
    }
  });

  const events = Object.entries(golden).filter(
    ([kind]) => data.messages[kind as keyof typeof data.messages].direction === "event",
  );
  it.each(events)("describes %s as it stands on the wire", (kind, text) => {
    const said = JSON.parse(text) as { readonly kind: string; readonly body: unknown };
    expect(said.kind).toBe(kind);
    expect(readerOf(kind).safeParse(said.body).error).toBeUndefined();
    expect(readerOf("envelope").safeParse(said).error).toBeUndefined();
    expect(readerOf(kind).safeParse({ nothing: "of it" }).success && Object.keys(said.body as object).length > 0).toBe(
      false,
    );
  });
});
