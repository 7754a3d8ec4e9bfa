#include "binding/group_binding.h"

#include <utility>

#include "binding/mesh_binding.h"
#include "binding/views.h"
#include "core/group.h"
#include "gloo/gloo_group.h"

namespace muster::binding {

namespace {

// In the order of packages/collectives/src/group.ts.
constexpr const char* kKinds[] = {"barrier", "allReduce", "reduceScatter", "allGather", "broadcast", "send", "receive"};
constexpr const char* kDTypes[] = {"f32", "bf16", "u8"};

template <size_t N>
uint8_t indexOf(const char* const (&names)[N], const std::string& name) {
  for (uint8_t i = 0; i < N; i++)
    if (name == names[i]) return i;
  return 0;
}

// Memory of the caller that is gathered into the input before an operation and filled from the result after it.
struct Parts {
  std::vector<Copy> in;
  std::vector<Copy> out;

  // {from, into, offsets}: lists of equal length
  static Parts of(const Napi::Object& table, const Collectives& group) {
    const auto offsets = table.Get("offsets").As<Napi::Float64Array>();
    const std::vector<std::span<uint8_t>> from = memoriesOf(table.Get("from").As<Napi::Array>());
    const std::vector<std::span<uint8_t>> into = memoriesOf(table.Get("into").As<Napi::Array>());
    Parts parts;
    for (size_t i = 0; i < from.size(); i++) {
      const auto offset = static_cast<uint64_t>(offsets[i]);
      parts.in.push_back({group.input().data() + offset, from[i].data(), from[i].size()});
      parts.out.push_back({into[i].data(), group.result().data() + offset, into[i].size()});
    }
    return parts;
  }
};

// An open group as JavaScript sees it: {input, result, run, abort, close}.
class GroupObject {
 public:
  static Napi::Value make(Napi::Env env, std::shared_ptr<Collectives> group) {
    const auto self = std::make_shared<GroupObject>(std::move(group));
    Napi::Object out = Napi::Object::New(env);
    const auto method = [&](const char* name, Napi::Value (GroupObject::*body)(const Napi::CallbackInfo&)) {
      const auto call = [self, body](const Napi::CallbackInfo& info) { return ((*self).*body)(info); };
      out.Set(name, Napi::Function::New(env, call, name));
    };
    method("input", &GroupObject::input);
    method("result", &GroupObject::result);
    method("run", &GroupObject::run);
    method("abort", &GroupObject::abort);
    method("close", &GroupObject::close);
    return out;
  }

  explicit GroupObject(std::shared_ptr<Collectives> group) : group_(std::move(group)) {}

 private:
  // (from, bytes): a new view at each call; JavaScript keeps it, and has checked that it is within the capacity.
  Napi::Value input(const Napi::CallbackInfo& info) { return window(info, group_->input()); }
  Napi::Value result(const Napi::CallbackInfo& info) { return window(info, group_->result()); }

  Napi::Value window(const Napi::CallbackInfo& info, std::span<const uint8_t> memory) {
    const auto from = static_cast<size_t>(info[0].As<Napi::Number>().Int64Value());
    const auto bytes = static_cast<size_t>(info[1].As<Napi::Number>().Int64Value());
    return views_.make(info.Env(), memory.subspan(from, bytes), group_);
  }

  Napi::Value run(const Napi::CallbackInfo& info) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    const Patience patience{Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
    Operation operation;
    operation.kind = static_cast<Operation::Kind>(indexOf(kKinds, textOf(from, "kind")));
    operation.dtype = static_cast<DType>(indexOf(kDTypes, textOf(from, "dtype")));
    operation.count = numberOf(from, "count");
    operation.peer = static_cast<uint32_t>(numberOf(from, "peer"));
    if (from.Get("mean").ToBoolean()) operation.reduction = Operation::Reduction::Mean;
    if (!from.Get("into").IsNull()) {
      operation.into = memoryOf(from.Get("into"));
      work.keep.push_back(keepAlive(from.Get("into")));
    }
    Parts parts;
    if (!from.Get("parts").IsNull()) {
      const auto table = from.Get("parts").As<Napi::Object>();  // made for this call; it holds all parts
      parts = Parts::of(table, *group_);
      work.keep.push_back(keepAlive(table));
    }
    work.run = [group = group_, operation, patience, parts = std::move(parts)]() -> Settle {
      Operation whole = operation;
      whole.gathers = parts.in;
      whole.scatters = parts.out;
      const Status done = group->run(whole, patience);
      if (!done.ok()) return failure(done);
      return success([](Napi::Env env) { return env.Undefined(); });
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }

  Napi::Value abort(const Napi::CallbackInfo& info) {
    if (group_) group_->abort(info[0].As<Napi::String>().Utf8Value());
    return info.Env().Undefined();
  }

  Napi::Value close(const Napi::CallbackInfo& info) {
    if (!group_) return info.Env().Undefined();
    group_->abort("the mesh was closed");  // the others hear it at once
    views_.detach();
    Engine::of(info.Env()).beside(info.Env(), [left = std::exchange(group_, nullptr)] { left->close(); });
    return info.Env().Undefined();
  }

  std::shared_ptr<Collectives> group_;  // null once closed
  Views<Collectives> views_;
};

}  // namespace

Napi::Value openGroup(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  MeshOptions options = membershipOf(from);
  options.group = textOf(from, "name");
  const uint64_t capacityBytes = numberOf(from, "capacityBytes");
  const Patience patience{Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
  const std::string gloo = from.Get("gloo").IsNull() ? "" : textOf(from, "gloo");
  work.run = [options = std::move(options), gloo, capacityBytes, patience]() -> Settle {
    const auto opened = [](const auto& group) -> Settle {
      if (!group.ok()) return failure(group.status());
      return success([made = group.value()](Napi::Env env) { return GroupObject::make(env, made); });
    };
    if (gloo.empty()) return opened(Group::open(options, capacityBytes, patience));
    return opened(GlooGroup::open(gloo, options, capacityBytes, patience));
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value describeGloo(const Napi::CallbackInfo& info) {
  const auto library = GlooLibrary::load(info[0].As<Napi::String>().Utf8Value());
  Napi::Object out = Napi::Object::New(info.Env());
  const auto text = [&](const std::string& value) { return Napi::String::New(info.Env(), value).As<Napi::Value>(); };
  out.Set("reason", library.ok() ? info.Env().Null() : text(library.status().message));
  out.Set("version", library.ok() ? text(library.value()->version()) : info.Env().Null());
  return out;
}

}  // namespace muster::binding
