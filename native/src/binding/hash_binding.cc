#include "binding/hash_binding.h"

#include "cpu/sha256_streams.h"

namespace muster::binding {

Napi::Value hasShaInstructions(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), muster::hasShaInstructions());
}

Napi::Value sha256Each(const Napi::CallbackInfo& info) {
  Engine::Work work{{}, std::make_shared<Abort>()};
  const auto list = info[0].As<Napi::Array>();  // made for this call; it holds all views
  work.keep.push_back(keepAlive(list));
  std::vector<ByteView> pieces;
  for (const std::span<uint8_t> piece : memoriesOf(list)) pieces.push_back(piece);
  work.run = [pieces = std::move(pieces), abort = work.abort]() -> Settle {
    std::vector<Sha256Digest> digests(pieces.size());
    const Status status = muster::sha256Each(pieces, digests, [&]() -> Status {
      if (!abort->requested()) return {};
      return {Code::Aborted, "the environment ends", {}};
    });
    if (!status.ok()) return failure(status);
    return success([digests = std::move(digests)](Napi::Env env) -> Napi::Value {
      constexpr size_t kBytes = std::tuple_size_v<Sha256Digest>;
      Napi::Uint8Array out = Napi::Uint8Array::New(env, digests.size() * kBytes);
      for (size_t i = 0; i < digests.size(); i++) std::copy(digests[i].begin(), digests[i].end(), out.Data() + i * kBytes);
      return out;
    });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
