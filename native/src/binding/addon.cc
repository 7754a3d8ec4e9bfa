// What the addon offers; packages/collectives/src/native.ts declares the types.
#include "binding/activity_binding.h"
#include "binding/gpu_binding.h"
#include "binding/group_binding.h"
#include "binding/hash_binding.h"
#include "binding/limit_binding.h"
#include "binding/mesh_binding.h"
#include "binding/region_binding.h"
#include "binding/signal_binding.h"
#include "binding/slice_binding.h"
#include "binding/version_binding.h"
#include "core/block_digest.h"
#include "core/shared_memory.h"
#include "core/usage.h"
#include "core/xxh64.h"

namespace muster::binding {

namespace {

Napi::Value digest(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), toHex(digestOf(memoryOf(info[0]))));
}

// {sections, pieces, cancellation} → a promise of the digests of all sections, 16 hexadecimal digits each, one behind the other. `sections` has the pieces of
// all of them, and `pieces` how many each has.
Napi::Value digestAll(const Napi::CallbackInfo& info) {
  const auto options = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(options, "cancellation")};
  const auto list = options.Get("sections").As<Napi::Array>();  // made for this call; it holds all views
  work.keep.push_back(keepAlive(list));
  const auto given = options.Get("pieces").As<Napi::Uint32Array>();
  std::vector<size_t> counts;
  for (size_t i = 0; i < given.ElementLength(); i++) counts.push_back(given[i]);
  std::vector<CopyPair> pairs;
  for (const std::span<uint8_t> piece : memoriesOf(list)) pairs.push_back({piece, nullptr});
  work.run = [pairs = std::move(pairs), counts = std::move(counts), abort = work.abort]() -> Settle {
    const auto mayGoOn = [&]() -> Status {
      if (!abort->requested()) return {};
      return {Code::Aborted, "the digest was cancelled", {}};
    };
    const Result<std::vector<Digested>> digested = copyAndDigestAll(pairs, mayGoOn);
    if (!digested.ok()) return failure(digested.status());
    std::string digests;
    size_t from = 0;
    for (const size_t count : counts) {
      uint64_t total = 0;
      for (size_t i = from; i < from + count; i++) total += pairs[i].from.size();
      digests += toHex(joinedOf(std::span(digested.value()).subspan(from, count), total).root);
      from += count;
    }
    return success([digests](Napi::Env env) { return Napi::String::New(env, digests); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value capabilities(const Napi::CallbackInfo& info) {
  const Status shared = probeSharedMemory();
  Napi::Object out = Napi::Object::New(info.Env());
  out.Set("sharedMemory", shared.ok());
  out.Set("reason", shared.ok() ? info.Env().Null() : Napi::String::New(info.Env(), shared.message).As<Napi::Value>());
  out.Set("version", MUSTER_NATIVE_VERSION);
  return out;
}

Napi::Value usageNow(const Napi::CallbackInfo& info) {
  Napi::Object out = Napi::Object::New(info.Env());
  out.Set("connections", static_cast<double>(usage().connections));
  out.Set("mappedBytes", static_cast<double>(usage().mappedBytes));
  return out;
}

}  // namespace

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  Engine::install(env);
  exports.Set("build", MUSTER_BINDING);
  exports.Set("Cancellation", Cancellation::define(env));
  exports.Set("digest", Napi::Function::New(env, digest));
  exports.Set("digestAll", Napi::Function::New(env, digestAll));
  exports.Set("hasShaInstructions", Napi::Function::New(env, hasShaInstructions));
  exports.Set("sha256Each", Napi::Function::New(env, sha256Each));
  exports.Set("capabilities", Napi::Function::New(env, capabilities));
  exports.Set("usage", Napi::Function::New(env, usageNow));
  exports.Set("activity", Napi::Function::New(env, activityNow));
  exports.Set("takeEvents", Napi::Function::New(env, takeEvents));
  exports.Set("hearEvents", Napi::Function::New(env, hearEvents));
  exports.Set("setNetworkTimes", Napi::Function::New(env, setNetworkTimes));
  exports.Set("guardSignal", Napi::Function::New(env, guardSignal));
  exports.Set("openStore", Napi::Function::New(env, openStore));
  exports.Set("pullVersion", Napi::Function::New(env, pullVersion));
  exports.Set("mapVersion", Napi::Function::New(env, mapVersion));
  exports.Set("measureFanOut", Napi::Function::New(env, measureFanOut));
  exports.Set("measureCopies", Napi::Function::New(env, measureCopies));
  exports.Set("measureAddUp", Napi::Function::New(env, measureAddUp));
  exports.Set("openGroup", Napi::Function::New(env, openGroup));
  exports.Set("describeGloo", Napi::Function::New(env, describeGloo));
  exports.Set("pullSlices", Napi::Function::New(env, pullSlices));
  exports.Set("describeGpus", Napi::Function::New(env, describeGpus));
  exports.Set("openGpu", Napi::Function::New(env, openGpu));
  exports.Set("openRegion", Napi::Function::New(env, openRegion));
  exports.Set("openMesh", Napi::Function::New(env, openMesh));
  return exports;
}

}  // namespace muster::binding

static Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  return muster::binding::initialize(env, exports);
}

NODE_API_MODULE(muster_native, initialize)
