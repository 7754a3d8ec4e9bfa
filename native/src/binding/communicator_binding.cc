#include "binding/communicator_binding.h"

#include <algorithm>
#include <utility>

#include "binding/gpu_memory_binding.h"
#include "gpu/stray_thread.h"

namespace muster::binding {

namespace {

Status withoutNccl(const std::string& why) { return {Code::Unsupported, "NCCL: " + why, {}}; }

// The place of an operand, {memory, offset}; nothing when the operation has none. A closed buffer gives Code::Closed.
Status operandOf(const Napi::Object& call, const char* key, cuda::DevicePointer& at, CommunicatorCall& into) {
  const Napi::Value value = call.Get(key);
  if (!value.IsObject()) return {};
  const auto operand = value.As<Napi::Object>();
  const DeviceMemoryRef memory = memoryBehind(operand.Get("memory"));
  if (!memory) return {Code::InvalidArgument, "a buffer was closed", {}};
  at = memory->at() + numberOf(operand, "offset");
  into.keep.push_back(memory);
  return {};
}

// The numbers are those of native-gpu.ts; the core's enums have the same order.
Result<std::vector<CommunicatorCall>> callsOf(const Napi::Array& from) {
  std::vector<CommunicatorCall> calls;
  for (uint32_t i = 0; i < from.Length(); i++) {
    const auto call = from.Get(i).As<Napi::Object>();
    CommunicatorCall& made = calls.emplace_back();
    made.collective = static_cast<Collective>(numberOf(call, "collective"));
    made.count = numberOf(call, "count");
    made.type = static_cast<nccl::DataType>(numberOf(call, "type"));
    made.reduction = static_cast<nccl::Reduction>(numberOf(call, "reduction"));
    made.peer = static_cast<uint32_t>(numberOf(call, "peer"));
    if (Status fine = operandOf(call, "from", made.from, made); !fine.ok()) return fine;
    if (Status fine = operandOf(call, "to", made.to, made); !fine.ok()) return fine;
  }
  return calls;
}

Settle settled(const Status& status) {
  if (!status.ok()) return failure(status);
  return success([](Napi::Env env) { return env.Undefined(); });
}

class CommunicatorObject {
 public:
  static Napi::Value make(Napi::Env env, const std::shared_ptr<Communicator>& communicator) {
    Napi::Object out = Napi::Object::New(env);
    out.Set("ranks", communicator->ranks());
    out.Set("rank", communicator->rank());
    const auto method = [&](const char* name, auto body) {
      out.Set(name, Napi::Function::New(env, [communicator, body](const Napi::CallbackInfo& info) { return body(communicator, info); }, name));
    };
    method("run", run);
    method("shrink", shrink);
    method("close", close);
    method("abort", [](const std::shared_ptr<Communicator>& c, const Napi::CallbackInfo& info) -> Napi::Value {
      c->abort(info[0].As<Napi::String>().Utf8Value());
      return info.Env().Undefined();
    });
    return out;
  }

 private:
  static Napi::Value run(const std::shared_ptr<Communicator>& communicator, const Napi::CallbackInfo& info) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    work.run = [communicator, calls = callsOf(from.Get("calls").As<Napi::Array>()), stream = streamOf(from),
                patience = gpuPatienceOf(from, work)]() -> Settle {
      return settled(calls.ok() ? communicator->run(calls.value(), patience, stream) : calls.status());
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }

  static Napi::Value shrink(const std::shared_ptr<Communicator>& communicator, const Napi::CallbackInfo& info) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    work.run = [communicator, excluded = numbersOf(from, "excluded"), patience = gpuPatienceOf(from, work)]() -> Settle {
      const auto made = communicator->shrink(excluded, patience);
      if (!made.ok()) return failure(made.status());
      return success([child = made.value()](Napi::Env env) { return CommunicatorObject::make(env, child); });
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }

  static Napi::Value close(const std::shared_ptr<Communicator>& communicator, const Napi::CallbackInfo& info) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    work.run = [communicator, patience = gpuPatienceOf(from, work)]() -> Settle { return settled(communicator->close(patience)); };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }
};

}  // namespace

Napi::Value newCommunicatorId(const Napi::CallbackInfo& info, const std::shared_ptr<const NcclLibrary>& nccl, const std::string& why) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  work.run = [nccl, why, patience = gpuPatienceOf(from, work)]() -> Settle {
    if (!nccl) return failure(withoutNccl(why));
    // It opens sockets, and looks for network interfaces first.
    const auto id = awaitStray<nccl::UniqueId>([nccl] { return Communicator::newId(*nccl); }, patience);
    if (!id.ok()) return failure(id.status());
    return success([made = id.value()](Napi::Env env) -> Napi::Value {
      return Napi::Buffer<char>::Copy(env, made.internal, sizeof made.internal);
    });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value openCommunicator(const Napi::CallbackInfo& info, const std::shared_ptr<GpuDevice>& gpu,
                             const std::shared_ptr<const NcclLibrary>& nccl, const std::string& why) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  CommunicatorOptions options{{}, static_cast<uint32_t>(numberOf(from, "ranks")), static_cast<uint32_t>(numberOf(from, "rank")),
                              from.Get("keepForShrink").As<Napi::Boolean>().Value()};
  const Bytes id = bytesOf(from, "id");  // of the right length: checked on the other side
  std::copy_n(id.begin(), std::min(id.size(), sizeof options.id.internal), options.id.internal);
  work.run = [gpu, nccl, why, options, patience = gpuPatienceOf(from, work)]() -> Settle {
    if (!nccl) return failure(withoutNccl(why));
    const auto opened = Communicator::open(nccl, gpu, options, patience);
    if (!opened.ok()) return failure(opened.status());
    return success([made = opened.value()](Napi::Env env) { return CommunicatorObject::make(env, made); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
