import { SetupError } from "./setup-error.mjs";

const required = { major: 20, minor: 19 };

/**
 * Checks that this Node can run the project.
 *
 * @param {string} version - Like `process.versions.node`.
 * @throws {SetupError} when it is too old.
 */
export function checkNodeVersion(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > required.major || (major === required.major && minor >= required.minor)) return;
  throw new SetupError(`Node ${version} is too old`, {
    fix: `install Node ${required.major}.${required.minor} or newer (https://nodejs.org) and run it again`,
  });
}
