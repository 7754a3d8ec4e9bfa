#include "binding/slice_binding.h"

#include "core/slice_pull.h"

namespace muster::binding {

namespace {

Napi::Object describe(Napi::Env env, const SlicesPulled& pulled) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("bytes", static_cast<double>(pulled.bytes));
  out.Set("wireBytes", static_cast<double>(pulled.wireBytes));
  out.Set("via", pulled.via == Via::Memory ? "memory" : "tcp");
  out.Set("from", pulled.from);
  return out;
}

Slice sliceOf(const Napi::Object& from) {
  return {numberOf(from, "from"), numberOf(from, "fromStride"), numberOf(from, "to"),
          numberOf(from, "toStride"), numberOf(from, "bytes"), numberOf(from, "count")};
}

}  // namespace

Napi::Value pullSlices(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const auto section = from.Get("section").As<Napi::Object>();
  SlicePullOptions options{bytesOf(from, "key"), textOf(from, "job"), textOf(from, "member"), {}, versionOf(from),
                           {textOf(section, "name"), numberOf(section, "bytes"), digestFromHex(textOf(section, "digest"))}, {}};
  const auto slices = from.Get("slices").As<Napi::Array>();
  for (uint32_t i = 0; i < slices.Length(); i++) options.slices.push_back(sliceOf(slices.Get(i).As<Napi::Object>()));
  work.keep.push_back(keepAlive(from.Get("into")));
  work.run = [options, holders = textsOf(from, "holders"), into = memoryOf(from.Get("into")), abort = work.abort,
              timeoutMs = numberOf(from, "timeoutMs")]() mutable -> Settle {
    for (const std::string& holder : holders) {
      Result<Address> address = parseAddress(holder);
      if (!address.ok()) return failure(address.status());
      options.holders.push_back(std::move(address.value()));
    }
    const Patience patience{Deadline::in(Milliseconds(timeoutMs)), abort.get()};
    const Result<SlicesPulled> pulled = muster::pullSlices(options, into, patience);
    if (!pulled.ok()) return failure(pulled.status());
    return success([done = pulled.value()](Napi::Env env) { return describe(env, done); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
