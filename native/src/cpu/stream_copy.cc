#include "cpu/stream_copy.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace muster {

#if defined(__SSE2__)

namespace {

constexpr size_t kWorthwhile = 256 * 1024;  // smaller copies fit in the cache and are better left there

void streamUnfenced(uint8_t* to, const uint8_t* from, size_t bytes) {
  const size_t head = std::min(bytes, (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  size_t done = head;
  for (; done + 64 <= bytes; done += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + done);
    auto* target = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

void streamCopyAll(std::span<const Copy> copies) {
  size_t total = 0;
  for (const Copy& each : copies) total += each.bytes;
  for (const Copy& each : copies) {
    if (each.bytes == 0) continue;  // then there may be no addresses
    if (total < kWorthwhile) std::memcpy(each.to, each.from, each.bytes);
    else streamUnfenced(each.to, each.from, each.bytes);
  }
  _mm_sfence();
}

#else

void streamCopyAll(std::span<const Copy> copies) {
  for (const Copy& each : copies)
    if (each.bytes > 0) std::memcpy(each.to, each.from, each.bytes);  // of nothing there may be no addresses
}

#endif

void streamCopy(uint8_t* to, const uint8_t* from, size_t bytes) {
  const Copy one{to, from, bytes};
  streamCopyAll({&one, 1});
}

}  // namespace muster
