/** The roles of this host on the embedded engine. */
import { embeddedBuild, embeddedEngines } from "@muster/engine/embedded";
import { checkpointRoleOn, type Doors, hostDoors, policyRoleOn, type Role, rolloutRoleOn } from "../../src/index.ts";

/** Engines, data plane and disk as a process has them. */
export const doors: Doors = hostDoors(embeddedEngines, embeddedBuild());

/** Trainers. */
export const policyRole: Role = policyRoleOn(doors);

/** Samplers. */
export const rolloutRole: Role = rolloutRoleOn(doors);

/** Checkpoint actors. */
export const checkpointRole: Role = checkpointRoleOn(doors);
