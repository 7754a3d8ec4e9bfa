// The lossless difference of two blocks of weights: which elements changed, and by how much as bit patterns. No arithmetic
// on floating point takes place, so NaN payloads, signed zeros and denormals survive.
//
//   0 element bytes u8 (2 or 4) | 1 zero u8 × 3 | 4 changed u32 | 8 bytes of gaps u32 | 12 escapes u32
//   gaps:        for each changed element the unchanged ones since the last: one byte; 255 means 255 + the u16 that
//                follows; when that is 65,535, another gap follows and adds to it
//   differences: for each changed element target − base, in half an element, signed; its smallest value is an escape
//   escapes:     for each escape the target's bits, whole
//   tail:        the bytes of the target behind the last whole element
//
// All little-endian.
#pragma once

#include <optional>

#include "core/bytes.h"
#include "core/status.h"

namespace muster {

inline constexpr size_t kDeltaHeaderBytes = 16;

// Reusable memory of an encoder: one for each thread.
class DeltaEncoder {
 public:
  // What turns `base` into `target`, which are equally long; nullopt when it would take more than `budget` bytes.
  std::optional<Bytes> encode(ByteView base, ByteView target, unsigned elementBytes, size_t budget);

 private:
  template <class Element, class Small>
  std::optional<Bytes> encodeAs(ByteView base, ByteView target, size_t budget);

  Bytes gaps_;
  Bytes differences_;
  Bytes escapes_;
};

// Turns the base that lies in `block` into the target. Code::Corrupt for anything that encode() does not make for a block of
// this length; the block is then of no use. Allocates nothing, and writes nowhere else.
Status applyDelta(ByteView delta, std::span<uint8_t> block);

}  // namespace muster
