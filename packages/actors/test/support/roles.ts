/** The roles of this host on the embedded engine. */
import { embeddedBuild, embeddedEngines } from "@muster/engine/embedded";
import { checkpointRoleOn, hostPorts, type Ports, policyRoleOn, type Role, rolloutRoleOn } from "../../src/index.ts";

/** Engines, data plane and disk as a process has them. */
export const ports: Ports = hostPorts(embeddedEngines, embeddedBuild());

/** Trainers. */
export const policyRole: Role = policyRoleOn(ports);

/** Samplers. */
export const rolloutRole: Role = rolloutRoleOn(ports);

/** Checkpoint actors. */
export const checkpointRole: Role = checkpointRoleOn(ports);
