/**
 * What is said of each process of a trainer: the list of the shards of a section, and where each rank serves. There may be thousands, so messages only name
 * these texts; the replica serves them on the data plane, and who pulls one has it verified by its digest.
 */
import { messageOf } from "@muster/base";
import { type Body, type Holder, partOf, type Section } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { Ports } from "../ports.ts";
import { type Puller, pullOf } from "../weights.ts";

/** What the text of the ranks' addresses is called on the data plane. */
export const ranksSection = "ranks";

/** What a rank has of a section. */
export interface Shard {
  readonly bytes: number;
  readonly digest: string;
}

/** Where a rank serves: its part of the weights, and of what trainers have besides. */
export interface RankAddresses {
  readonly addresses: readonly string[];
  readonly training: readonly string[];
}

/** Who reads texts. */
export type TextReader = Puller & Pick<Ports, "pull">;

/** The ranks of a member of a mesh, and the version beside which their text lies. */
export type NamedRanks = NonNullable<Body<"mesh.build">["members"][number]["ranks"]>;

type VersionId = Pick<Body<"weights.pull">, "lineage" | "version">;

/** What the digest of a list of shards begins with: that of a section as one piece is never taken for it. */
const listPrefix = "shards:";

const lineEnd = 10;

/** Most characters of a size and a digest in a list. */
const rowMax = 64;

/** Longest digest of a shard, longest address of a rank, and how many of these it has. */
const [digestMax, addressMax, addressesMax] = [32, 128, 2];

/** True for the digest of a section that lies in shards: its bytes are in the order of these. Pure. */
export const isOfShards = (digest: string): boolean => digest.startsWith(listPrefix);

/** Room for the list of as many shards. Pure. */
export const listBytesMax = (size: number): number => rowMax * (size + 1);

/** Lists the shards of a section. Pure. */
export function listText({ name, bytes }: Pick<Section, "name" | "bytes">, shards: readonly Shard[]): Uint8Array {
  const list = [name, bytes, shards.map((shard) => [shard.bytes, shard.digest])];
  return new TextEncoder().encode(JSON.stringify(list));
}

/** Says where each rank serves, in a line for each: who needs one of thousands reads one. Pure. */
export function ranksText(ranks: readonly RankAddresses[]): Uint8Array {
  const lines = ranks.map(({ addresses, training }) => JSON.stringify([addresses, training]));
  return new TextEncoder().encode(lines.join("\n"));
}

/** The digest of a section by that of the list of its shards. Pure. */
export const digestOfList = (digest: string): string => `${listPrefix}${digest}`;

/** The shards of a section, from any holder. @throws MUSTER_ERR_SHARDS_DIFFER; the errors of `pull` */
export async function readShards(
  reader: TextReader,
  { section, holders, ...id }: VersionId & { readonly section: Section; readonly holders: readonly Holder[] },
  signal: AbortSignal,
): Promise<readonly Shard[]> {
  const { name, bytes, digest, shards } = section;
  const differs = (reason: string): Error => errors.ShardsDiffer({ section: name, reason });
  if (!shards || !isOfShards(digest)) throw differs("they are not named");
  const isTraining = partOf(section) === "training";
  const from = holders.flatMap((holder) => (isTraining ? (holder.training ?? []) : holder.addresses));
  const asked = { name, bytes: shards.bytes, digest: digest.slice(listPrefix.length) };
  const text = await pulled(reader, { ...id, section: asked, from }, signal);
  const value = parsed(textOf(text, differs), differs);
  if (!isList(value)) throw differs("their list is none");
  const [what, size, list] = value;
  if (what !== name || size !== bytes || list.length !== shards.of)
    throw differs(
      `their list is of ${list.length} with ${size} bytes of ${what}, and ${shards.of} with ${bytes} were ordered`,
    );
  return list.map(([each, digestOfEach]) => ({ bytes: each, digest: digestOfEach }));
}

const ranksDiffer = (reason: string): Error => errors.ShardsDiffer({ section: ranksSection, reason });

/** Where the ranks of a trainer serve. @throws MUSTER_ERR_SHARDS_DIFFER; the errors of `pull` */
export async function readRanks(
  reader: TextReader,
  named: NamedRanks,
  signal: AbortSignal,
): Promise<readonly RankAddresses[]> {
  const text = await pulledRanks(reader, named, signal);
  const ranks = textOf(text, ranksDiffer).split("\n");
  if (ranks.length !== named.of) throw ranksDiffer(`there are ${ranks.length}, and ${named.of} were named`);
  return ranks.map(rankIn);
}

/** Where one rank of a trainer serves. As {@link readRanks}. */
export async function readRank(
  reader: TextReader,
  { rank, ...named }: NamedRanks & { readonly rank: number },
  signal: AbortSignal,
): Promise<RankAddresses> {
  const text = await pulledRanks(reader, named, signal);
  let from = 0;
  for (let line = 0; line < rank && from >= 0; line++) from = text.indexOf(lineEnd, from) + 1 || -1;
  if (from < 0) throw ranksDiffer(`rank ${rank} is none of them`);
  const end = text.indexOf(lineEnd, from);
  return rankIn(textOf(text.subarray(from, end < 0 ? text.length : end), ranksDiffer));
}

async function pulledRanks(
  reader: TextReader,
  { lineage, version, addresses, bytes, digest }: NamedRanks,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const section = { name: ranksSection, bytes, digest };
  return await pulled(reader, { lineage, version, section, from: addresses }, signal);
}

function rankIn(line: string): RankAddresses {
  const rank = parsed(line, ranksDiffer);
  if (!isRank(rank)) throw ranksDiffer("it does not say where each rank serves");
  const [addresses, training] = rank;
  return { addresses, training };
}

/** One text, whose digest is verified on its way. */
async function pulled(
  reader: TextReader,
  { section, from, lineage, version }: VersionId & { readonly section: Shard & { name: string }; from: string[] },
  signal: AbortSignal,
): Promise<Uint8Array> {
  const text = new Uint8Array(section.bytes);
  const asked = { lineage, version, sections: [section], holders: [{ addresses: from }] };
  await reader.pull({ ...pullOf(reader, asked), into: { [section.name]: text }, signal });
  return text;
}

function textOf(text: Uint8Array, differs: (reason: string) => Error): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(text);
  } catch (error) {
    throw differs(messageOf(error));
  }
}

function parsed(text: string, differs: (reason: string) => Error): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw differs(messageOf(error));
  }
}

// Every rank of thousands reads thousands of rows: a schema would take ten times as long.

const isText = (value: unknown, max: number): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= max;

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

type Row = readonly [number, string];

function isRow(value: unknown): value is Row {
  return Array.isArray(value) && value.length === 2 && isCount(value[0]) && isText(value[1], digestMax);
}

function isList(value: unknown): value is readonly [string, number, readonly Row[]] {
  if (!Array.isArray(value) || value.length !== 3) return false;
  const [name, bytes, rows] = value;
  return isText(name, digestMax) && isCount(bytes) && Array.isArray(rows) && rows.every(isRow);
}

const areAddresses = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.length <= addressesMax && value.every((each) => isText(each, addressMax));

function isRank(value: unknown): value is readonly [readonly string[], readonly string[]] {
  return Array.isArray(value) && value.length === 2 && value.every(areAddresses);
}
