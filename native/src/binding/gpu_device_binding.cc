// One GPU for JavaScript: its memory, and communicators on it.
#include <utility>

#include "binding/communicator_binding.h"
#include "binding/gpu_binding.h"
#include "gpu/stray_thread.h"

namespace muster::binding {

namespace {

using Memory = std::shared_ptr<DeviceMemory>;

Patience patienceOf(const Napi::Object& from, const Engine::Work& work) {
  return {Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
}

// The answer of a call into the driver, which runs on a thread that can be left behind.
Settle settled(const Result<bool>& done) {
  if (!done.ok()) return failure(done.status());
  return success([](Napi::Env env) { return env.Undefined(); });
}

// Device memory as JavaScript sees it: {memory, bytes, write, read, close}. `memory` is the handle for calls.
class MemoryObject {
 public:
  static Napi::Value make(Napi::Env env, const Memory& memory, size_t bytes) {
    const auto open = std::make_shared<Memory>(memory);
    Napi::Object out = Napi::Object::New(env);
    const auto forget = [](Napi::Env, std::shared_ptr<Memory>* owner) { delete owner; };
    out.Set("memory", Napi::External<std::shared_ptr<Memory>>::New(env, new std::shared_ptr<Memory>(open), forget));
    out.Set("bytes", static_cast<double>(bytes));
    method(out, "write", [open](const Napi::CallbackInfo& info) { return copy(info, *open, true); });
    method(out, "read", [open](const Napi::CallbackInfo& info) { return copy(info, *open, false); });
    method(out, "close", [open](const Napi::CallbackInfo& info) -> Napi::Value {
      open->reset();
      return info.Env().Undefined();
    });
    return out;
  }

 private:
  template <class Body>
  static void method(Napi::Object& out, const char* name, Body body) {
    out.Set(name, Napi::Function::New(out.Env(), body, name));
  }

  // `bytes` are copied to or from `offset`. They are staged, because a copy that is given up may go on after the promise has settled.
  static Napi::Value copy(const Napi::CallbackInfo& info, const Memory& memory, bool in) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    const std::span<uint8_t> bytes = memoryOf(from.Get("bytes"));
    work.keep.push_back(keepAlive(from.Get("bytes")));
    const uint64_t offset = numberOf(from, "offset");
    work.run = [memory, bytes, offset, in, patience = patienceOf(from, work)]() -> Settle {
      const auto staged = std::make_shared<Bytes>(bytes.size());
      const auto abort = std::make_shared<Abort>();
      const Deadline deadline = patience.deadline;
      if (in) std::copy(bytes.begin(), bytes.end(), staged->begin());
      const Result<bool> done = awaitStray<bool>(
          [=]() -> Result<bool> {
            const Patience own{deadline, abort.get()};
            const Status copied = in ? memory->gpu().copyIn(memory->at() + offset, *staged, own)
                                     : memory->gpu().copyOut(*staged, memory->at() + offset, own);
            return copied.ok() ? Result<bool>(true) : Result<bool>(copied);
          },
          patience);
      if (done.ok() && !in) std::copy(staged->begin(), staged->end(), bytes.begin());
      return settled(done);
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }
};

Napi::Value allocate(const Napi::CallbackInfo& info, const std::shared_ptr<GpuDevice>& gpu) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const size_t bytes = numberOf(from, "bytes");
  work.run = [gpu, bytes, patience = patienceOf(from, work)]() -> Settle {
    const Result<Memory> made = awaitStray<Memory>([gpu, bytes] { return DeviceMemory::create(gpu, bytes); }, patience);
    if (!made.ok()) return failure(made.status());
    return success([memory = made.value(), bytes](Napi::Env env) { return MemoryObject::make(env, memory, bytes); });
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
  return out;
}

}  // namespace

Napi::Value openGpu(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const GpuPaths paths{textOf(from, "cuda"), textsOf(from, "nccl")};
  const auto index = static_cast<int>(numberOf(from, "index"));
  work.run = [paths, index, patience = patienceOf(from, work)]() -> Settle {
    const Result<Opened> opened = awaitStray<Opened>([paths, index] { return open(paths, index); }, patience);
    if (!opened.ok()) return failure(opened.status());
    return success([made = opened.value()](Napi::Env env) { return gpuObject(env, made); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
