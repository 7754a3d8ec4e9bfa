#include "binding/gpu_memory_binding.h"

#include "gpu/stray_thread.h"

namespace muster::binding {

Patience gpuPatienceOf(const Napi::Object& from, const Engine::Work& work) {
  return {Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
}

namespace {

using Handle = Napi::External<std::shared_ptr<DeviceMemoryRef>>;

// Device memory as JavaScript sees it: {memory, bytes, write, read, close}. `memory` is the handle for calls.
class MemoryObject {
 public:
  static Napi::Value make(Napi::Env env, const DeviceMemoryRef& memory, size_t bytes) {
    const auto open = std::make_shared<DeviceMemoryRef>(memory);
    Napi::Object out = Napi::Object::New(env);
    const auto forget = [](Napi::Env, std::shared_ptr<DeviceMemoryRef>* owner) { delete owner; };
    out.Set("memory", Handle::New(env, new std::shared_ptr<DeviceMemoryRef>(open), forget));
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
  static Napi::Value copy(const Napi::CallbackInfo& info, const DeviceMemoryRef& memory, bool in) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    const std::span<uint8_t> bytes = memoryOf(from.Get("bytes"));
    work.keep.push_back(keepAlive(from.Get("bytes")));
    const uint64_t offset = numberOf(from, "offset");
    work.run = [memory, bytes, offset, in, patience = gpuPatienceOf(from, work)]() -> Settle {
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
