/**
 * The environment for nested npm, pnpm and build tools. Under `npm start` npm exports its own flags and paths (`npm_config_loglevel`,
 * `npm_config_prefix`, `npm_lifecycle_*`, …), which would change what a nested npm does. Only what says how to reach a registry is kept.
 */

const keptSettings =
  /^npm_config_(registry|https?_proxy|proxy|no_?proxy|cafile|ca|strict_ssl|userconfig|globalconfig|cache|store_dir|fetch_.*|@.*|\/\/.*)$/i;

/**
 * Removes what the surrounding npm added.
 *
 * @param {NodeJS.ProcessEnv} environment
 * @returns {NodeJS.ProcessEnv} A copy; proxies, certificates and registry settings are kept.
 */
export function childEnvironment(environment) {
  const kept = Object.entries(environment).filter(([name]) => !/^npm_/i.test(name) || keptSettings.test(name));
  const copy = Object.fromEntries(kept);
  // Development dependencies are what builds the project, whatever the caller's mode is.
  delete copy.NODE_ENV;
  return copy;
}
