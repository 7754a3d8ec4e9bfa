/** Ids are subject tokens: they are checked once, when made, so that no subject can be forged out of a name. */
import { z } from "zod";
import { errors } from "./errors.ts";
import { perRole, replicaRoles } from "./role-table.ts";

/** Who an actor is: what it computes, and what the broker lets it say. */
export const roles = ["controller", ...replicaRoles, "node", "operator"] as const;

/** One of the {@link roles}. */
export type Role = (typeof roles)[number];

/** The roles of members: replicas, and the nodes that run them. */
export const memberRoles = [...replicaRoles, "node"] as const;

/** A role that joins a job and is watched by the controller. */
export type MemberRole = (typeof memberRoles)[number];

/** A value for each role of members. Pure. */
export function perMemberRole<T>(make: (role: MemberRole) => T): { readonly [R in MemberRole]: T } {
  return { ...perRole(make), node: make("node") };
}

const idPattern = /^[a-z0-9][a-z0-9-]{0,47}$/;

/** Schema of an actor id, job name or incarnation. */
export const idSchema = z.string().regex(idPattern);

/** Checks an id. @returns The id itself. @throws MUSTER_ERR_ID_INVALID naming `field`. */
export function checkId(field: string, value: string): string {
  if (!idPattern.test(value)) throw errors.IdInvalid({ field, value: value.slice(0, 64) });
  return value;
}

/** Id of the group of one prompt: `<step>.<index>`. */
export function groupIdOf(step: number, index: number): string {
  return `${step}.${index}`;
}
