#include "binding/gpu_memory_binding.h"

#include "binding/mapped_version.h"
#include "gpu/direct_copy.h"
#include "gpu/stray_thread.h"

namespace muster::binding {

Patience gpuPatienceOf(const Napi::Object& from, const Engine::Work& work) {
  return {Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
}

cuda::Stream streamOf(const Napi::Object& from) {
  if (from.Get("stream").IsNull()) return nullptr;
  bool exact = false;
  return reinterpret_cast<cuda::Stream>(from.Get("stream").As<Napi::BigInt>().Uint64Value(&exact));
}

namespace {

using Handle = Napi::External<std::shared_ptr<DeviceMemoryRef>>;

// Device memory as JavaScript sees it: {memory, bytes, write, writeFrom, read, close}. `memory` is the handle for calls.
class MemoryObject {
 public:
  static Napi::Value make(Napi::Env env, const DeviceMemoryRef& memory, size_t bytes) {
    const auto open = std::make_shared<DeviceMemoryRef>(memory);
    Napi::Object out = Napi::Object::New(env);
    const auto forget = [](Napi::Env, std::shared_ptr<DeviceMemoryRef>* owner) { delete owner; };
    out.Set("memory", Handle::New(env, new std::shared_ptr<DeviceMemoryRef>(open), forget));
    out.Set("bytes", static_cast<double>(bytes));
    method(out, "write", [open](const Napi::CallbackInfo& info) { return copy(info, *open, true); });
    method(out, "writeFrom", [open](const Napi::CallbackInfo& info) { return copyFrom(info, *open); });
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
  static Napi::Value copy(const Napi::CallbackInfo& info, const DeviceMemoryRef& memory, bool in) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    const std::span<uint8_t> bytes = memoryOf(from.Get("bytes"));
    work.keep.push_back(keepAlive(from.Get("bytes")));
    const uint64_t offset = numberOf(from, "offset");
    work.run = [memory, bytes, offset, in, stream = streamOf(from), patience = gpuPatienceOf(from, work)]() -> Settle {
      const auto staged = std::make_shared<Bytes>(bytes.size());
      const auto abort = std::make_shared<Abort>();
      const Deadline deadline = patience.deadline;
      if (in) std::copy(bytes.begin(), bytes.end(), staged->begin());
      const Result<bool> done = awaitStray<bool>(
          [=]() -> Result<bool> {
            const Patience own{deadline, abort.get()};
            const Status copied = in ? memory->gpu().copyIn(memory->at() + offset, *staged, own, stream)
                                     : memory->gpu().copyOut(*staged, memory->at() + offset, own, stream);
            return copied.ok() ? Result<bool>(true) : Result<bool>(copied);
          },
          patience);
      if (done.ok() && !in) std::copy(staged->begin(), staged->end(), bytes.begin());
      if (!done.ok()) return failure(done.status());
      return success([](Napi::Env env) { return env.Undefined(); });
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }

  // {mapped, section, from, bytes, offset, stream}: what the thread reads it holds, for it may be left behind.
  static Napi::Value copyFrom(const Napi::CallbackInfo& info, const DeviceMemoryRef& memory) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    const Pulled& pulled = mappedBehind(from.Get("mapped"))->pulled;
    const ByteView bytes = pulled.sections.at(numberOf(from, "section")).subspan(numberOf(from, "from"), numberOf(from, "bytes"));
    work.run = [memory, bytes, hold = pulled.hold, offset = numberOf(from, "offset"), stream = streamOf(from), abort = work.abort,
                patience = gpuPatienceOf(from, work)]() -> Settle {
      const Result<bool> done = awaitStray<bool>(
          [=, held = hold]() -> Result<bool> {
            const Status copied = copyDirect(memory->gpu(), memory->at() + offset, bytes, stream, *abort);
            return copied.ok() ? Result<bool>(true) : Result<bool>(copied);
          },
          patience);
      if (!done.ok()) return failure(done.status());
      return success([](Napi::Env env) { return env.Undefined(); });
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }
};

}  // namespace

Napi::Value memoryObject(Napi::Env env, const DeviceMemoryRef& memory, size_t bytes) { return MemoryObject::make(env, memory, bytes); }

DeviceMemoryRef memoryBehind(const Napi::Value& handle) { return **handle.As<Handle>().Data(); }

}  // namespace muster::binding
