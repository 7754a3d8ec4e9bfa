/** Which network of a machine a test takes: several tests with hosts of their own run at once, each in a process that knows nothing of the others. */

/** Networks that tests may take: `10.214.0.0/24` … `10.214.255.0/24`. */
const subnets = 256;

/** The names that say who has which network: they are there for all processes of the machine, and one by one they come and go at once. */
export interface ClaimedNames {
  list(): readonly string[];
  add(name: string): void;
  remove(name: string): void;
}

/** Name of the claim of a process; the names of its hosts begin so, too. Pure. */
export const claimPrefix = (pid: number, subnet: number): string => `mu${pid}n${subnet}`;

const claimPattern = /^mu(\d+)n(\d+)(?:sw|h\d+)$/;

/** The process that has made a namespace, and its network; `null` for a name that is no test's. Pure. */
export function claimIn(name: string): { readonly pid: number; readonly subnet: number } | null {
  const [, pid, subnet] = claimPattern.exec(name) ?? [];
  return pid === undefined ? null : { pid: Number(pid), subnet: Number(subnet) };
}

/**
 * Claims a network that nobody else has. Who finds another claim beside its own gives its own back, so of two that claim the same one at the same time at
 * most one keeps it. Processes begin at different ones.
 *
 * @returns The number of the network, which is claimed by the name `<claimPrefix>sw`. @throws Error when all are taken
 */
export function claimSubnet(pid: number, names: ClaimedNames): number {
  const isTaken = (subnet: number, own = ""): boolean =>
    names.list().some((name) => name !== own && claimIn(name)?.subnet === subnet);
  for (let i = 0; i < subnets; i++) {
    const subnet = (pid + i) % subnets;
    if (isTaken(subnet)) continue;
    const claim = `${claimPrefix(pid, subnet)}sw`;
    names.add(claim);
    if (!isTaken(subnet, claim)) return subnet;
    names.remove(claim);
  }
  throw new Error(`all ${subnets} networks 10.214.x.0/24 are taken; end the tests that have them (ip netns list)`);
}
