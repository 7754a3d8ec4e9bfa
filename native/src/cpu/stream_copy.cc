#include "cpu/stream_copy.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster {

#if defined(__x86_64__)

namespace {

constexpr size_t kWorthwhile = 256 * 1024;  // smaller copies fit in the cache and are better left there
constexpr size_t kLine = 64;
constexpr size_t kAhead = 1024;  // bytes that the next reads are announced before

// Each copies whole lines, to a multiple of one. Wide loads and an announcement matter most where the source is not aligned
// as the target is, as buffers of engines rarely are.
using LineCopy = void (*)(uint8_t* to, const uint8_t* from, size_t bytes);

void linesWithSse2(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine)
    for (size_t i = 0; i < kLine; i += 16) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + i), part);
    }
}

__attribute__((target("avx2"))) void linesWithAvx2(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead), _MM_HINT_T0);
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + 32), high);
  }
}

void streamUnfenced(uint8_t* to, const uint8_t* from, size_t bytes) {
  static const LineCopy copyLines = __builtin_cpu_supports("avx2") ? linesWithAvx2 : linesWithSse2;
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  const size_t lines = (bytes - head) / kLine * kLine;
  copyLines(to + head, from + head, lines);
  std::memcpy(to + head + lines, from + head + lines, bytes - head - lines);
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

void streamCopyPart(const Copy& part, size_t whole) {
  if (part.bytes == 0) return;
  if (whole < kWorthwhile) std::memcpy(part.to, part.from, part.bytes);
  else streamUnfenced(part.to, part.from, part.bytes);
  _mm_sfence();
}

#else

void streamCopyAll(std::span<const Copy> copies) {
  for (const Copy& each : copies)
    if (each.bytes > 0) std::memcpy(each.to, each.from, each.bytes);  // of nothing there may be no addresses
}

void streamCopyPart(const Copy& part, size_t) { streamCopyAll({&part, 1}); }

#endif

void streamCopy(uint8_t* to, const uint8_t* from, size_t bytes) {
  const Copy one{to, from, bytes};
  streamCopyAll({&one, 1});
}

}  // namespace muster
