#include "core/bytes.h"

namespace muster {

// Not in the header: where g++ 12 and 13 inline a write of few bytes, they warn of overflows that can not happen.
ByteWriter& ByteWriter::raw(ByteView bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

}  // namespace muster
