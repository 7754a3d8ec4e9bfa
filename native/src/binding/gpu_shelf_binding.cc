#include "binding/gpu_shelf_binding.h"

#include "binding/gpu_memory_binding.h"
#include "gpu/device_shelf.h"
#include "gpu/stray_thread.h"

namespace muster::binding {

namespace {

using Shelf = std::shared_ptr<DeviceShelf>;

ShelvedId shelvedIdOf(const Napi::Object& from) { return {versionOf(from), digestFromHex(textOf(from, "digest"))}; }

// The driver is called on a thread that can be left behind.
Napi::Value put(const Napi::CallbackInfo& info, const Shelf& shelf) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  work.run = [shelf, named = shelvedIdOf(from), memory = memoryBehind(from.Get("memory")), bytes = numberOf(from, "bytes"),
              patience = gpuPatienceOf(from, work)]() -> Settle {
    const Result<bool> done = awaitStray<bool>(
        [=]() -> Result<bool> {
          const Status status = shelf->put(named, memory, bytes);
          return status.ok() ? Result<bool>(true) : Result<bool>(status);
        },
        patience);
    if (!done.ok()) return failure(done.status());
    return success([](Napi::Env env) { return env.Undefined(); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value close(const Napi::CallbackInfo& info, const Shelf& shelf) {
  Engine::Work work{[shelf]() -> Settle {
                      shelf->close();
                      return success([](Napi::Env env) { return env.Undefined(); });
                    },
                    std::make_shared<Abort>()};
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value shelfObject(Napi::Env env, const Shelf& shelf) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("address", shelf->address());
  out.Set("put", Napi::Function::New(env, [shelf](const Napi::CallbackInfo& info) { return put(info, shelf); }, "put"));
  out.Set("close", Napi::Function::New(env, [shelf](const Napi::CallbackInfo& info) { return close(info, shelf); }, "close"));
  return out;
}

}  // namespace

Napi::Value openGpuShelf(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  const ShelfOptions options{bytesOf(from, "key"), textOf(from, "job"), textOf(from, "member"), textOf(from, "socketDir"),
                             numberOf(from, "slots")};
  Engine::Work work{[options]() -> Settle {
                      const Result<Shelf> shelf = DeviceShelf::open(options);
                      if (!shelf.ok()) return failure(shelf.status());
                      return success([opened = shelf.value()](Napi::Env env) { return shelfObject(env, opened); });
                    },
                    std::make_shared<Abort>()};
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value takeGpuVersion(const Napi::CallbackInfo& info, const std::shared_ptr<GpuDevice>& gpu) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const TakeOptions options{bytesOf(from, "key"), textOf(from, "job"), textOf(from, "member"), textOf(from, "holder"), shelvedIdOf(from)};
  work.run = [gpu, options, patience = gpuPatienceOf(from, work)]() -> Settle {
    const auto abort = std::make_shared<Abort>();  // outlives this call, as the thread may
    const Deadline deadline = patience.deadline;
    const Result<TakenVersion> taken = awaitStray<TakenVersion>(
        [=] { return takeVersion(gpu, options, Patience{deadline, abort.get()}); }, patience);
    abort->request();
    if (!taken.ok()) return failure(taken.status());
    return success([version = taken.value()](Napi::Env env) { return memoryObject(env, version.memory, version.bytes); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
