import { groupsJoinedBody, groupsPieceBody } from "../pieces.ts";
import { defineMessages } from "./define.ts";

/** What is stored in pieces. */
export const pieceMessages = defineMessages({
  "groups.piece": {
    direction: "groups",
    from: ["rollout"],
    says: "A rollout replica stores a piece of what is too large for one message.",
    body: groupsPieceBody,
  },
  "groups.joined": {
    direction: "groups",
    from: ["rollout"],
    says: "A rollout replica names the pieces that are finished groups, or begun ones, one after the other.",
    body: groupsJoinedBody,
  },
});
