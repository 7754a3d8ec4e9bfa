#include "binding/gpu_binding.h"

#include "gpu/gpu_report.h"

namespace muster::binding {

namespace {

Napi::Array attemptsOf(Napi::Env env, const std::vector<LibraryAttempt>& failed) {
  Napi::Array out = Napi::Array::New(env);
  for (const LibraryAttempt& attempt : failed) {
    Napi::Object each = Napi::Object::New(env);
    each.Set("path", attempt.path);
    each.Set("error", attempt.error);
    out.Set(out.Length(), each);
  }
  return out;
}

// What both reports begin with.
template <class Report>
Napi::Object libraryOf(Napi::Env env, const Report& report) {
  Napi::Object out = Napi::Object::New(env);
  if (report.status.ok()) out.Set("reason", env.Null());
  else out.Set("reason", report.status.message);
  out.Set("failed", attemptsOf(env, report.failed));
  out.Set("path", report.path);
  out.Set("version", report.version);
  Napi::Array missing = Napi::Array::New(env);
  for (const std::string& each : report.missing) missing.Set(missing.Length(), each);
  out.Set("missing", missing);
  return out;
}

Napi::Object toJs(Napi::Env env, const CudaReport& report) {
  Napi::Object out = libraryOf(env, report);
  Napi::Array devices = Napi::Array::New(env);
  for (const CudaDevice& device : report.devices) {
    Napi::Object each = Napi::Object::New(env);
    each.Set("index", device.index);
    each.Set("name", device.name);
    each.Set("memoryBytes", static_cast<double>(device.memoryBytes));
    each.Set("compute", std::to_string(device.computeMajor) + "." + std::to_string(device.computeMinor));
    each.Set("sharing", device.virtualMemory && device.fileDescriptorHandles);
    devices.Set(devices.Length(), each);
  }
  out.Set("devices", devices);
  return out;
}

Napi::Object toJs(Napi::Env env, const NcclReport& report) {
  Napi::Object out = libraryOf(env, report);
  out.Set("shrink", report.shrink);
  out.Set("grow", report.grow);
  out.Set("revoke", report.revoke);
  out.Set("severalRanksPerGpu", report.severalRanksPerGpu);
  return out;
}

}  // namespace

Napi::Value describeGpus(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const GpuPaths paths{textOf(from, "cuda"), textsOf(from, "nccl")};
  const Patience patience{Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
  work.run = [paths, patience]() -> Settle {
    const Result<GpuReport> report = muster::describeGpus(paths, patience);
    if (!report.ok()) return failure(report.status());
    return success([found = report.value()](Napi::Env env) -> Napi::Value {
      Napi::Object out = Napi::Object::New(env);
      out.Set("cuda", toJs(env, found.cuda));
      out.Set("nccl", toJs(env, found.nccl));
      return out;
    });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
