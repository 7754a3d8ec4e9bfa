#include "cpu/changed_elements.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster {

namespace {

template <class Element>
uint64_t changedIn(const uint8_t* a, const uint8_t* b, size_t count) {
  uint64_t mask = 0;
  for (size_t i = 0; i < count; i++) {
    Element x, y;
    std::memcpy(&x, a + i * sizeof x, sizeof x);
    std::memcpy(&y, b + i * sizeof y, sizeof y);
    mask |= uint64_t{x != y} << i;
  }
  return mask;
}

// `whole` makes the mask of 64 elements.
template <class Whole>
void eachMask(const uint8_t* a, const uint8_t* b, size_t count, unsigned elementBytes, uint64_t* masks, Whole whole) {
  size_t done = 0;
  for (; done + 64 <= count; done += 64) masks[done / 64] = whole(a + done * elementBytes, b + done * elementBytes);
  if (done == count) return;
  const uint8_t *restA = a + done * elementBytes, *restB = b + done * elementBytes;
  masks[done / 64] = elementBytes == 2 ? changedIn<uint16_t>(restA, restB, count - done)
                                       : changedIn<uint32_t>(restA, restB, count - done);
}

#if defined(__x86_64__)

#define MUSTER_AVX2 __attribute__((target("avx2")))

MUSTER_AVX2 inline __m256i equal16(const uint8_t* a, const uint8_t* b, size_t at) {
  return _mm256_cmpeq_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a) + at),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b) + at));
}
MUSTER_AVX2 inline __m256i equal32(const uint8_t* a, const uint8_t* b, size_t at) {
  return _mm256_cmpeq_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a) + at),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b) + at));
}

MUSTER_AVX2 uint64_t whole16Avx2(const uint8_t* a, const uint8_t* b) {
  uint64_t same = 0;
  for (unsigned half = 0; half < 2; half++) {
    const __m256i packed = _mm256_packs_epi16(equal16(a, b, half * 2), equal16(a, b, half * 2 + 1));
    const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xd8);
    same |= uint64_t{static_cast<uint32_t>(_mm256_movemask_epi8(ordered))} << (32 * half);
  }
  return ~same;
}

MUSTER_AVX2 uint64_t whole32Avx2(const uint8_t* a, const uint8_t* b) {
  uint64_t same = 0;
  for (unsigned part = 0; part < 8; part++)
    same |= uint64_t{static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(equal32(a, b, part))))} << (8 * part);
  return ~same;
}

MUSTER_AVX2 void changedAvx2(const uint8_t* a, const uint8_t* b, size_t count, unsigned elementBytes, uint64_t* masks) {
  if (elementBytes == 2) eachMask(a, b, count, 2, masks, whole16Avx2);
  else eachMask(a, b, count, 4, masks, whole32Avx2);
}

uint64_t whole16(const uint8_t* a, const uint8_t* b) {
  const auto *x = reinterpret_cast<const __m128i*>(a), *y = reinterpret_cast<const __m128i*>(b);
  uint64_t same = 0;
  for (unsigned part = 0; part < 4; part++) {
    const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(x + 2 * part), _mm_loadu_si128(y + 2 * part));
    const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(x + 2 * part + 1), _mm_loadu_si128(y + 2 * part + 1));
    same |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)))} << (16 * part);
  }
  return ~same;
}

uint64_t whole32(const uint8_t* a, const uint8_t* b) {
  const auto *x = reinterpret_cast<const __m128i*>(a), *y = reinterpret_cast<const __m128i*>(b);
  uint64_t same = 0;
  for (unsigned part = 0; part < 16; part++) {
    const __m128i equal = _mm_cmpeq_epi32(_mm_loadu_si128(x + part), _mm_loadu_si128(y + part));
    same |= uint64_t{static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(equal)))} << (4 * part);
  }
  return ~same;
}

#else

uint64_t whole16(const uint8_t* a, const uint8_t* b) { return changedIn<uint16_t>(a, b, 64); }
uint64_t whole32(const uint8_t* a, const uint8_t* b) { return changedIn<uint32_t>(a, b, 64); }

#endif

}  // namespace

void changedElementsBaseline(const uint8_t* a, const uint8_t* b, size_t count, unsigned elementBytes, uint64_t* masks) {
  if (elementBytes == 2) eachMask(a, b, count, 2, masks, whole16);
  else eachMask(a, b, count, 4, masks, whole32);
}

void changedElements(const uint8_t* a, const uint8_t* b, size_t count, unsigned elementBytes, uint64_t* masks) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2");
  if (wide) return changedAvx2(a, b, count, elementBytes, masks);
#endif
  changedElementsBaseline(a, b, count, elementBytes, masks);
}

}  // namespace muster
