// Deltas: hostile ones write nowhere but into their block, and honest ones come back to the bit.
#include "core/delta_base.h"
#include "fuzz.h"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteReader in({data, size});
  const auto length = in.number<uint16_t>();
  const ByteView delta = in.raw(in.remaining());
  constexpr uint8_t kGuard = 0xa5;
  constexpr size_t kMargin = 64;
  Bytes block(length + 2 * kMargin, kGuard);
  [[maybe_unused]] const Status applied = applyDelta(delta, std::span(block).subspan(kMargin, length));
  for (size_t i = 0; i < kMargin; i++) HOLDS(block[i] == kGuard && block[block.size() - 1 - i] == kGuard);
  [[maybe_unused]] const DeltaLog::Block only = onlyStepOf(delta);

  const ByteView base = delta.first(delta.size() / 2), target = delta.subspan(delta.size() / 2).first(base.size());
  static DeltaEncoder encoder;
  for (const unsigned width : {2u, 4u}) {
    const std::optional<Bytes> encoded = encoder.encode(base, target, width, 16 * base.size() + 64);
    HOLDS(encoded.has_value());
    Bytes made(base.begin(), base.end());
    HOLDS(applyDelta(*encoded, made).ok());
    HOLDS(std::equal(made.begin(), made.end(), target.begin(), target.end()));
  }
  return 0;
}
