#include "binding/mesh_binding.h"

#include <utility>

#include "binding/views.h"
#include "core/mesh.h"
#include "core/version_store.h"

namespace muster::binding {

namespace {

// An open mesh as JavaScript sees it: {shard, result, reduce, abort, close}. Views are external ArrayBuffers over the
// mesh's memory: each keeps the mesh's mapping alive, and close() detaches them all, so that the memory goes at once.
class MeshObject {
 public:
  static Napi::Value make(Napi::Env env, std::shared_ptr<Mesh> mesh) {
    const auto self = std::make_shared<MeshObject>(std::move(mesh));
    Napi::Object out = Napi::Object::New(env);
    const auto method = [&](const char* name, Napi::Value (MeshObject::*body)(const Napi::CallbackInfo&)) {
      const auto call = [self, body](const Napi::CallbackInfo& info) { return ((*self).*body)(info); };
      out.Set(name, Napi::Function::New(env, call, name));
    };
    method("shard", &MeshObject::shard);
    method("result", &MeshObject::result);
    method("reduce", &MeshObject::reduce);
    method("abort", &MeshObject::abort);
    method("close", &MeshObject::close);
    return out;
  }

  explicit MeshObject(std::shared_ptr<Mesh> mesh) : mesh_(std::move(mesh)) {}

 private:
  Napi::Value shard(const Napi::CallbackInfo& info) {
    return view(info, 1, mesh_->shard(info[0].As<Napi::Number>().Uint32Value()));
  }
  Napi::Value result(const Napi::CallbackInfo& info) { return view(info, 0, mesh_->result()); }

  // Of the elements that the arguments from number `first` on name: the first and how many. Called once for each; JavaScript keeps the view.
  Napi::Value view(const Napi::CallbackInfo& info, size_t first, std::span<float> whole) {
    const Napi::Env env = info.Env();
    const auto argument = [&](size_t i) { return static_cast<size_t>(info[i].As<Napi::Number>().Int64Value()); };
    const std::span<float> memory = whole.subspan(argument(first), argument(first + 1));
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(memory.data()), memory.size_bytes());
    const Napi::ArrayBuffer buffer = views_.make(env, bytes, mesh_);
    return Napi::Float32Array::New(env, memory.size(), buffer, 0);
  }

  Napi::Value reduce(const Napi::CallbackInfo& info) {
    const auto from = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(from, "cancellation")};
    const Patience patience{Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
    const ReduceOptions options{numberOf(from, "op"), numbersOf(from, "written")};
    work.run = [mesh = mesh_, options, patience]() -> Settle {
      const Status reduced = mesh->reduce(options, patience);
      if (!reduced.ok()) return failure(reduced);
      return success([](Napi::Env env) { return env.Undefined(); });
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }

  Napi::Value abort(const Napi::CallbackInfo& info) {
    if (mesh_) mesh_->abort(info[0].As<Napi::String>().Utf8Value());
    return info.Env().Undefined();
  }

  Napi::Value close(const Napi::CallbackInfo& info) {
    if (!mesh_) return info.Env().Undefined();
    mesh_->abort("the mesh was closed");  // the others hear it at once
    views_.detach();
    Engine::of(info.Env()).beside(info.Env(), [left = std::exchange(mesh_, nullptr)] { left->close(); });
    return info.Env().Undefined();
  }

  std::shared_ptr<Mesh> mesh_;  // null once closed
  Views<Mesh> views_;
};

}  // namespace

MeshOptions membershipOf(const Napi::Object& from) {
  MeshOptions options;
  options.key = bytesOf(from, "key");
  options.job = textOf(from, "job");
  options.epoch = numberOf(from, "epoch");
  options.rank = static_cast<uint32_t>(numberOf(from, "rank"));
  options.members = textsOf(from, "members");
  options.socketDir = textOf(from, "socketDir");
  const auto places = from.Get("places").As<Napi::Array>();
  for (uint32_t rank = 0; rank < places.Length(); rank++) {
    const auto place = places.Get(rank).As<Napi::Object>();
    options.places.push_back({textOf(place, "host"), textOf(place, "address")});
  }
  if (!from.Get("store").IsNull())
    options.store = *from.Get("store").As<Napi::External<std::shared_ptr<VersionStore>>>().Data();
  return options;
}

Napi::Value openMesh(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  MeshOptions options = membershipOf(from);
  options.shards = static_cast<uint32_t>(numberOf(from, "shards"));
  options.shardElements = numberOf(from, "shardElements");
  const Patience patience{Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
  work.run = [options = std::move(options), patience]() -> Settle {
    Result<std::shared_ptr<Mesh>> mesh = Mesh::open(options, patience);
    if (!mesh.ok()) return failure(mesh.status());
    return success([opened = mesh.value()](Napi::Env env) { return MeshObject::make(env, opened); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
