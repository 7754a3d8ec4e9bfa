import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { childEnvironment } from "../../../scripts/lib/child-environment.mjs";
import { root } from "../../../scripts/lib/paths.mjs";
import { commandHint, commandLink, commandLinkStep } from "../../../scripts/lib/setup/command-link.mjs";
import { checkTools, nativeBuildStep } from "../../../scripts/lib/setup/native-build.mjs";
import { findNatsServer } from "../../../scripts/lib/setup/nats-server.mjs";
import { checkNodeVersion } from "../../../scripts/lib/setup/node-version.mjs";
import {
  addonName,
  manifestName,
  packPrebuilt,
  takePrebuilt,
  writePrebuilt,
} from "../../../scripts/lib/setup/prebuilt.mjs";
import { StepLine } from "../../../scripts/lib/setup/progress.mjs";
import { packageManagerFix } from "../../../scripts/lib/setup/setup-error.mjs";
import { fingerprintOf, Stamp } from "../../../scripts/lib/setup/stamp.mjs";
import { which } from "../../../scripts/lib/setup/which.mjs";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "muster-set-up-"));
  return () => rmSync(folder, { recursive: true, force: true });
});

function write(name: string, text: string, mode = 0o644): string {
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

const natsServer = (name: string, version: string) => write(name, `#!/bin/sh\necho nats-server: v${version}\n`, 0o755);

describe("the Node version", () => {
  it.each(["20.19.0", "20.20.2", "22.0.0", "24.1.0"])("%s is enough", (version) => {
    expect(() => checkNodeVersion(version)).not.toThrow();
  });

  it.each(["18.20.4", "20.18.3"])("%s is refused with where to get a newer one", (version) => {
    expect(() => checkNodeVersion(version)).toThrow(expect.objectContaining({ fix: expect.stringContaining("20.19") }));
  });
});

describe("a fingerprint", () => {
  it("changes with content, name and salt, and not with what is ignored", () => {
    write("src/a.ts", "1");
    const before = fingerprintOf(folder, ["src", "absent.json"]);
    write("src/node_modules/x.js", "ignored");
    expect(fingerprintOf(folder, ["src", "absent.json"])).toBe(before);
    expect(fingerprintOf(folder, ["src"], "salt")).not.toBe(before);
    write("src/a.ts", "2");
    const changed = fingerprintOf(folder, ["src"]);
    expect(changed).not.toBe(before);
    rmSync(join(folder, "src/a.ts"));
    write("src/b.ts", "2");
    expect(fingerprintOf(folder, ["src"])).not.toBe(changed);
  });
});

describe("the stamp", () => {
  it("remembers steps over processes, each with its inputs", () => {
    const path = join(folder, "deep/setup.json");
    Stamp.read(path).markDone("a", "1");
    Stamp.read(path).markDone("b", "2");
    const stamp = Stamp.read(path);
    expect([stamp.isDone("a", "1"), stamp.isDone("b", "2"), stamp.isDone("a", "2"), stamp.isDone("c", "1")]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it("is empty when its file is broken, and mends it", () => {
    const path = write("setup.json", '{"a": ');
    const stamp = Stamp.read(path);
    expect(stamp.isDone("a", "1")).toBe(false);
    stamp.markDone("a", "1");
    expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ a: "1" });
  });
});

describe("the environment of nested commands", () => {
  it("keeps the network, and drops what the surrounding npm added", () => {
    const kept = {
      PATH: "/bin",
      HTTPS_PROXY: "http://proxy",
      npm_config_registry: "https://registry",
      npm_config_cafile: "ca.pem",
    };
    const dropped = {
      npm_config_loglevel: "silent",
      npm_config_prefix: "/usr",
      npm_lifecycle_event: "start",
      npm_execpath: "npm",
      NODE_ENV: "production",
    };
    expect(childEnvironment({ ...kept, ...dropped })).toEqual(kept);
  });
});

describe("finding a command", () => {
  it("takes executables from PATH in order, and nothing else", () => {
    write("one/tool", "not executable");
    const tool = write("two/tool", "#!/bin/sh\n", 0o755);
    const environment = { PATH: `${join(folder, "one")}:relative:${join(folder, "two")}` };
    expect(which("tool", environment)).toBe(tool);
    expect(which("absent", environment)).toBeNull();
    expect(which(tool, {})).toBe(tool);
  });

  it("says in one error which build tools are missing and how to install them", () => {
    write("bin/make", "#!/bin/sh\n", 0o755);
    expect(() => checkTools({ PATH: join(folder, "bin") })).toThrow(
      expect.objectContaining({
        message: expect.stringContaining("a C++ compiler, cmake"),
        fix: expect.stringContaining("apt-get install -y g++ cmake;"),
      }),
    );
  });
});

describe("the nats-server", () => {
  it("is the one that MUSTER_NATS_SERVER names, before the one on PATH", () => {
    const onPath = natsServer("bin/nats-server", "2.12.0");
    const chosen = natsServer("chosen", "2.11.0");
    expect(findNatsServer({ PATH: join(folder, "bin") })).toBe(onPath);
    expect(findNatsServer({ PATH: join(folder, "bin"), MUSTER_NATS_SERVER: chosen })).toBe(chosen);
  });

  it("is refused with its version when the chosen one is too old, and when it does not run", () => {
    const old = natsServer("old", "2.10.27");
    expect(() => findNatsServer({ MUSTER_NATS_SERVER: old })).toThrow("is version 2.10.27, older than 2.11");
    expect(() => findNatsServer({ MUSTER_NATS_SERVER: join(folder, "absent") })).toThrow("does not run");
  });

  it("on PATH is passed over when it is too old", () => {
    const old = natsServer("bin/nats-server", "2.9.10");
    expect(findNatsServer({ PATH: join(folder, "bin") })).not.toBe(old);
  });
});

describe("the advice on a failed package manager", () => {
  it("names the network only when the output does", () => {
    expect(packageManagerFix("npm error code ENOTFOUND", "look above")).toContain("registry cannot be reached");
    expect(packageManagerFix("npm error code EACCES", "look above")).toBe("look above");
  });
});

describe("the progress of a build", () => {
  function line(isTerminal = false) {
    let said = "";
    let nowMs = 0;
    const say = (text: string) => {
      said += text;
    };
    const step = new StepLine({ say, label: "C++", isTerminal, now: () => nowMs });
    return {
      step,
      said: () => said,
      take(...chunks: readonly string[]) {
        for (const chunk of chunks) step.take(Buffer.from(chunk));
      },
      pass(ms: number) {
        nowMs += ms;
        step.tick();
      },
    };
  }

  it("is told in files and seconds with Ninja, in steps of ten percent, and as a share with make", () => {
    const ninja = line();
    for (let i = 1; i <= 40; i++) {
      ninja.pass(500);
      ninja.take(`[${i}/40] Building CXX object ${i}.cc.o\n`);
    }
    ninja.step.end("20.0 s");
    expect(ninja.said()).toMatch(
      /^C\+\+ … 4 of 40 files, 2 s … 8 of 40 files, 4 s … .*36 of 40 files, 18 s … 20\.0 s\n$/,
    );
    const make = line();
    make.take("[ 35%] Building\nwarning: 90% of this is unused\n", "[ 36%] Linking\n");
    expect(make.said()).toBe("C++ … 35 %, 0 s … ");
    make.step.end("");
  });

  it("is told after twenty seconds also when the compiler says nothing", () => {
    const quiet = line();
    quiet.pass(19_000);
    expect(quiet.said()).toBe("C++ … ");
    quiet.pass(1_000);
    quiet.take("[1/40] Building a.cc\n");
    quiet.pass(20_000);
    expect(quiet.said()).toBe("C++ … 20 s … 1 of 40 files, 40 s … ");
    quiet.step.end("");
  });

  it("is seen in a line that comes in two parts, and once", () => {
    const parts = line();
    parts.take("[ 4", "2%] Building a.cc\n[ 43%] Building", " b.cc\n", "[100%] Built target\n", "no share here\n");
    expect(parts.said()).toBe("C++ … 42 %, 0 s … ");
    parts.step.end("");
  });

  it("is drawn in its place each second on a terminal", () => {
    const shown = line(true);
    shown.take("[3/40] Building a.cc\n");
    shown.pass(1_000);
    shown.step.end("1.0 s");
    expect(shown.said()).toBe("C++ … \rC++ … 3 of 40 files, 1 s\u001b[K\rC++ … 1.0 s\u001b[K\n");
  });
});

describe("a prebuilt addon", () => {
  const addon = join(root, "native/build/Release", addonName);
  const given = () => join(folder, "given");
  const output = () => join(folder, "output");
  const change = (fields: object) => {
    const path = join(given(), manifestName);
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), ...fields }));
  };
  const refused = (why: string) =>
    expect(takePrebuilt(given(), output())).rejects.toThrow(
      expect.objectContaining({
        message: expect.stringContaining(why),
        fix: expect.stringContaining("npm run prebuild:native"),
      }),
    );
  beforeEach(() => writePrebuilt(addon, given()));

  it("is taken from a folder, and from an archive at an address", async () => {
    await takePrebuilt(given(), output());
    expect(readFileSync(join(output(), addonName)).equals(readFileSync(addon))).toBe(true);

    const archive = packPrebuilt(addon, join(folder, "packed"));
    const server = createServer((_, response) => void response.end(readFileSync(archive)));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as AddressInfo;
    rmSync(output(), { recursive: true });
    await takePrebuilt(`http://127.0.0.1:${port}/a.tar.gz`, output());
    server.close();
    expect(readdirSync(output())).toEqual([addonName]);
  });

  it("is looked at before the build tools, so a machine without a compiler needs none", async () => {
    const environment = { PATH: join(folder, "empty"), MUSTER_PREBUILT: join(folder, "nowhere") };
    await expect(nativeBuildStep.run({ environment } as never)).rejects.toThrow("nowhere is refused: it is not there");
    await expect(nativeBuildStep.run({ environment: { PATH: environment.PATH } } as never)).rejects.toThrow(
      expect.objectContaining({ fix: expect.stringContaining("MUSTER_PREBUILT") }),
    );
  });

  it.each([
    ["sources", "0123"],
    ["arch", "other"],
    ["platform", "other"],
    ["libc", "musl"],
    ["napi", 7],
  ])("of another %s is refused by name", async (field, value) => {
    change({ [field]: value });
    await refused(`its ${field} is ${value}, and here it is`);
    expect(existsSync(output())).toBe(false);
  });

  it("that was damaged, that does not load, or that is not there is refused, and what stands stays", async () => {
    writeFileSync(join(given(), addonName), "something else");
    await refused("its digest is");
    change({ sha256: createHash("sha256").update("something else").digest("hex") });
    mkdirSync(output());
    writeFileSync(join(output(), addonName), "what stands");
    await refused("it does not load: Error: ");
    expect(readdirSync(output())).toEqual([addonName]);
    expect(readFileSync(join(output(), addonName), "utf8")).toBe("what stands");
    writeFileSync(join(given(), manifestName), "[");
    await refused("prebuilt.json is not what");
    rmSync(given(), { recursive: true });
    await refused("it is not there");
    await expect(takePrebuilt("http://127.0.0.1:1/x.tar.gz", output())).rejects.toThrow("it can not be fetched");
  });
});

describe("the command muster", () => {
  it("is a link of the checkout, which the hint puts on the path, and where it is there is no hint", async () => {
    if (!commandLinkStep.isPresent({})) await commandLinkStep.run({} as never);
    expect(commandLinkStep.isPresent({})).toBe(true);
    const hint = commandHint({ PATH: `${folder}:/usr/bin:/bin` });
    expect(hint).toContain('export PATH="');
    const pasted = `${hint?.slice(hint.indexOf("export"))}; command -v muster`;
    const found = execFileSync("sh", ["-c", pasted], { encoding: "utf8", env: { PATH: "/usr/bin:/bin" } });
    expect(found.trim()).toBe(commandLink);
    expect(commandHint({ PATH: `${join(commandLink, "..")}:/usr/bin` })).toBeNull();
    write("muster", "another program", 0o755);
    expect(commandHint({ PATH: `${folder}:${join(commandLink, "..")}` }), "another one comes first").not.toBeNull();
  });
});
