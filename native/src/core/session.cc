#include "core/session.h"

#include <algorithm>

namespace muster {

FrameTag Seal::next(const EncodedHeader& header, ByteView payload) {
  ByteWriter number;
  number.number(number_++);
  const ByteView parts[] = {number.bytes(), header, payload};
  const Sha256Digest whole = hmacSha256(key_, parts);
  FrameTag tag;
  std::copy_n(whole.begin(), tag.size(), tag.begin());
  return tag;
}

}  // namespace muster
