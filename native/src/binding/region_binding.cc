#include "binding/region_binding.h"

#include <cstring>
#include <utility>

#include "binding/values.h"
#include "core/pull.h"
#include "core/shared_memory.h"

namespace muster::binding {

namespace {

// Smaller copies take less time than to begin an operation on a thread of its own.
constexpr size_t kAtOnce = 256 * 1024;

// Of a copy, which waits for nobody.
constexpr Milliseconds kLongest{std::chrono::minutes(10)};

using Memory = std::shared_ptr<Segment>;

// What a caller gives: {bytes, at}, whose range JavaScript has checked.
Napi::Value copy(const Memory& memory, const Napi::CallbackInfo& info, bool intoRegion) {
  const auto options = info[0].As<Napi::Object>();
  const Napi::Value array = options.Get("bytes");
  const std::span<uint8_t> given = memoryOf(array);
  const std::span<uint8_t> region{memory->mapping.data() + numberOf(options, "at"), given.size()};
  const ByteView from = intoRegion ? given : region;
  const std::span<uint8_t> into = intoRegion ? region : given;
  const Settle done = success([](Napi::Env env) { return env.Undefined(); });
  if (from.size() <= kAtOnce) {
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
    return done(info.Env());
  }
  Engine::Work work{{}, std::make_shared<Abort>()};
  work.keep.push_back(keepAlive(array));
  work.run = [from, into, memory, done, patience = Patience{Deadline::in(kLongest), work.abort.get()}]() -> Settle {
    const Status copied = copyPieces(std::span(&from, 1), std::span(&into, 1), patience);
    return copied.ok() ? done : failure(copied);
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value describe(Napi::Env env, Memory opened) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("fd", opened->fd.get());
  // Copies that are under way hold the memory, too.
  const auto memory = std::make_shared<Memory>(std::move(opened));
  const auto copier = [memory](bool intoRegion) {
    return [memory, intoRegion](const Napi::CallbackInfo& info) { return copy(*memory, info, intoRegion); };
  };
  out.Set("write", Napi::Function::New(env, copier(true)));
  out.Set("read", Napi::Function::New(env, copier(false)));
  out.Set("hide", Napi::Function::New(env, [memory](const Napi::CallbackInfo&) { (*memory)->fd.reset(); }));
  out.Set("close", Napi::Function::New(env, [memory](const Napi::CallbackInfo&) { memory->reset(); }));
  return out;
}

}  // namespace

Napi::Value openRegion(const Napi::CallbackInfo& info) {
  const auto options = info[0].As<Napi::Object>();
  Result<Segment> segment = createSegment(textOf(options, "name"), numberOf(options, "bytes"), Access::ReadWrite);
  if (!segment.ok()) return failure(segment.status())(info.Env());
  const auto memory = std::make_shared<Segment>(std::move(segment.value()));
  return success([memory](Napi::Env env) { return describe(env, memory); })(info.Env());
}

}  // namespace muster::binding
