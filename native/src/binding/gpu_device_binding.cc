// One GPU for JavaScript: its memory, and communicators on it.
#include <utility>

#include "binding/communicator_binding.h"
#include "binding/gpu_binding.h"
#include "binding/gpu_memory_binding.h"
#include "binding/gpu_shelf_binding.h"
#include "gpu/stray_thread.h"

namespace muster::binding {

namespace {

Napi::Value allocate(const Napi::CallbackInfo& info, const std::shared_ptr<GpuDevice>& gpu) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const size_t bytes = numberOf(from, "bytes");
  work.run = [gpu, bytes, patience = gpuPatienceOf(from, work)]() -> Settle {
    const Result<DeviceMemoryRef> made = awaitStray<DeviceMemoryRef>([gpu, bytes] { return DeviceMemory::create(gpu, bytes); }, patience);
    if (!made.ok()) return failure(made.status());
    return success([memory = made.value(), bytes](Napi::Env env) { return memoryObject(env, memory, bytes); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

// What an open device is made of.
struct Opened {
  std::shared_ptr<GpuDevice> gpu;
  std::shared_ptr<const NcclLibrary> nccl;  // null without NCCL
  std::string withoutNccl;
};

Result<Opened> open(const GpuPaths& paths, int index) {
  std::vector<LibraryAttempt> failed;
  const auto driver = CudaDriver::load(paths.cuda, failed);
  if (!driver.ok()) return driver.status();
  const auto gpu = GpuDevice::open(driver.value(), index);
  if (!gpu.ok()) return gpu.status();
  const auto nccl = NcclLibrary::load(paths.nccl, failed);
  return Opened{gpu.value(), nccl.ok() ? nccl.value() : nullptr, nccl.status().message};
}

Napi::Value gpuObject(Napi::Env env, const Opened& opened) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("name", opened.gpu->properties().name);
  const auto method = [&](const char* name, auto body) { out.Set(name, Napi::Function::New(env, body, name)); };
  method("allocate", [gpu = opened.gpu](const Napi::CallbackInfo& info) { return allocate(info, gpu); });
  method("newId", [opened](const Napi::CallbackInfo& info) {
    return newCommunicatorId(info, opened.nccl, opened.withoutNccl);
  });
  method("openCommunicator", [opened](const Napi::CallbackInfo& info) {
    return openCommunicator(info, opened.gpu, opened.nccl, opened.withoutNccl);
  });
  method("openShelf", openGpuShelf);
  method("takeVersion", [gpu = opened.gpu](const Napi::CallbackInfo& info) { return takeGpuVersion(info, gpu); });
  return out;
}

}  // namespace

Napi::Value openGpu(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const GpuPaths paths{textOf(from, "cuda"), textsOf(from, "nccl")};
  const auto index = static_cast<int>(numberOf(from, "index"));
  work.run = [paths, index, patience = gpuPatienceOf(from, work)]() -> Settle {
    const Result<Opened> opened = awaitStray<Opened>([paths, index] { return open(paths, index); }, patience);
    if (!opened.ok()) return failure(opened.status());
    return success([made = opened.value()](Napi::Env env) { return gpuObject(env, made); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
