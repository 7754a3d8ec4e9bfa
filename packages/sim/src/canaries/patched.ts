/** An object that does what another does, but for a few of its methods. */
export function patched<T extends object>(whole: T, patch: Partial<T>): T {
  return new Proxy(whole, {
    get: (target, key) => {
      if (key in patch) return patch[key as keyof T];
      const value = Reflect.get(target, key) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
