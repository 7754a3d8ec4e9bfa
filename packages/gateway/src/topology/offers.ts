/** The newest whole version of each group: one message makes it known, so nobody sees a part of it. */
import { heldByAnother, isAnother } from "./members.ts";
import {
  bytesOf,
  livingNode,
  type Outcome,
  refuse,
  type Topology,
  type TopologyRules,
  type WeightOffer,
  withEntry,
} from "./state.ts";

/** What a process offers. With its life, it offers nothing under a rank that another one has by now. */
export type Offered = { readonly group: string; readonly incarnation?: string | null | undefined } & WeightOffer;

/** Makes a version known. Versions of a group rise; the same offer again is the same. */
export function offerWeights(
  state: Topology,
  { group, incarnation = null, ...offer }: Offered,
  rules: TopologyRules,
): Outcome<{ readonly version: number }> {
  const sender = offer.sender === null ? undefined : livingNode(state, offer.sender);
  if (sender === undefined)
    return refuse(409, `sender: "${offer.sender}" is no living process; register it first`, "sender");
  if (isAnother(sender, incarnation)) return heldByAnother(sender);
  const newest = state.offers.get(group);
  const known = newest === undefined ? withRoom(state.offers, rules.offersMax) : state.offers;
  if (known === null) return refuse(507, `group_name: ${rules.offersMax} groups have an offer already`, "group_name");
  if (JSON.stringify(newest) === JSON.stringify(offer)) return { state, answer: { version: offer.version } };
  if (newest !== undefined && offer.version <= newest.version)
    return refuse(409, `version: ${offer.version} is not above ${newest.version}, the newest of this group`, "version");
  const others = [...known].filter(([each]) => each !== group).map(([, { manifest }]) => manifest);
  const bytes = [offer.manifest, ...others].reduce((sum, each) => sum + (each === null ? 0 : bytesOf(each)), 0);
  if (bytes > rules.offerBytesMax)
    return refuse(507, `manifest: with it all offers have more than ${rules.offerBytesMax} bytes`, "manifest");
  return {
    state: { ...state, offers: withEntry(known, group, offer) },
    answer: { version: offer.version },
  };
}

/** The offers with room for one group more: of one whose source is gone, only the number is forgotten. Null when all have a source. */
function withRoom(offers: Topology["offers"], offersMax: number): Topology["offers"] | null {
  if (offers.size < offersMax) return offers;
  const withdrawn = [...offers].find(([, { manifest }]) => manifest === null);
  return withdrawn === undefined ? null : withEntry(offers, withdrawn[0], undefined);
}

/** The newest version of a group; the number is null when there never was one, the manifest when its source is gone. */
export function newestOffer(state: Topology, group: string) {
  return state.offers.get(group) ?? { version: null, sender: null, manifest: null };
}
