#include "cpu/xxh3_stripes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster::xxh3_detail {

namespace {

constexpr size_t kPerRound = 16;              // stripes between two scrambles
constexpr size_t kScramble = 128, kLast = 121;  // where in the secret
constexpr uint64_t kPrime32 = 0x9E3779B1;

void addPlainly(Lanes& lanes, const uint8_t* stripe, const uint8_t* secret) {
  for (size_t i = 0; i < lanes.size(); i++) {
    const uint64_t value = load64(stripe + 8 * i), keyed = value ^ load64(secret + 8 * i);
    lanes[i ^ 1] += value;
    lanes[i] += (keyed & 0xFFFFFFFF) * (keyed >> 32);
  }
}

void plain(Lanes& lanes, uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t at = 0, n = 1; at < bytes; at += kStripe, n++) {
    uint8_t stripe[kStripe];
    std::memcpy(stripe, from + at, kStripe);
    if (to != nullptr) std::memcpy(to + at, stripe, kStripe);
    addPlainly(lanes, stripe, kSecret + (n - 1) % kPerRound * 8);
    if (n % kPerRound != 0) continue;
    for (size_t i = 0; i < lanes.size(); i++)
      lanes[i] = (lanes[i] ^ (lanes[i] >> 47) ^ load64(kSecret + kScramble + 8 * i)) * kPrime32;
  }
}

#if defined(__x86_64__)

template <bool kCopy>
void sse2(Lanes& out, uint8_t* to, const uint8_t* from, size_t bytes) {
  __m128i lanes[4];
  std::memcpy(lanes, out.data(), sizeof lanes);
  const __m128i prime = _mm_set1_epi64x(static_cast<long long>(kPrime32));
  const auto part = [](const uint8_t* at, size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + i); };
  for (size_t at = 0, n = 1; at < bytes; at += kStripe, n++) {
    const uint8_t* secret = kSecret + (n - 1) % kPerRound * 8;
    for (size_t i = 0; i < 4; i++) {
      const __m128i value = part(from + at, i);
      if constexpr (kCopy) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, value);
      const __m128i keyed = _mm_xor_si128(value, part(secret, i));
      const __m128i product = _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32));
      lanes[i] = _mm_add_epi64(lanes[i], _mm_add_epi64(product, _mm_shuffle_epi32(value, 0x4e)));
    }
    if (n % kPerRound != 0) continue;
    for (size_t i = 0; i < 4; i++) {
      const __m128i mixed = _mm_xor_si128(_mm_xor_si128(lanes[i], _mm_srli_epi64(lanes[i], 47)), part(kSecret + kScramble, i));
      const __m128i high = _mm_slli_epi64(_mm_mul_epu32(_mm_srli_epi64(mixed, 32), prime), 32);
      lanes[i] = _mm_add_epi64(_mm_mul_epu32(mixed, prime), high);
    }
  }
  std::memcpy(out.data(), lanes, sizeof lanes);
}

template <bool kCopy>
__attribute__((target("avx2"))) void avx2(Lanes& out, uint8_t* to, const uint8_t* from, size_t bytes) {
  __m256i lanes[2];
  std::memcpy(lanes, out.data(), sizeof lanes);
  const __m256i prime = _mm256_set1_epi64x(static_cast<long long>(kPrime32));
  for (size_t at = 0, n = 1; at < bytes; at += kStripe, n++) {
    const auto* source = reinterpret_cast<const __m256i*>(from + at);
    const auto* secret = reinterpret_cast<const __m256i*>(kSecret + (n - 1) % kPerRound * 8);
    for (size_t i = 0; i < 2; i++) {
      const __m256i value = _mm256_loadu_si256(source + i);
      if constexpr (kCopy) {  // the target is a multiple of 16, not always of 32
        auto* target = reinterpret_cast<__m128i*>(to + at) + 2 * i;
        _mm_stream_si128(target, _mm256_castsi256_si128(value));
        _mm_stream_si128(target + 1, _mm256_extracti128_si256(value, 1));
      }
      const __m256i keyed = _mm256_xor_si256(value, _mm256_loadu_si256(secret + i));
      const __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
      lanes[i] = _mm256_add_epi64(lanes[i], _mm256_add_epi64(product, _mm256_shuffle_epi32(value, 0x4e)));
    }
    if (n % kPerRound != 0) continue;
    for (size_t i = 0; i < 2; i++) {
      const __m256i key = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kSecret + kScramble) + i);
      const __m256i mixed = _mm256_xor_si256(_mm256_xor_si256(lanes[i], _mm256_srli_epi64(lanes[i], 47)), key);
      const __m256i high = _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime), 32);
      lanes[i] = _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), high);
    }
  }
  std::memcpy(out.data(), lanes, sizeof lanes);
}

void withSse2(Lanes& lanes, uint8_t* to, const uint8_t* from, size_t bytes) {
  if (to == nullptr) return sse2<false>(lanes, nullptr, from, bytes);
  sse2<true>(lanes, to, from, bytes);
  _mm_sfence();
}

void withAvx2(Lanes& lanes, uint8_t* to, const uint8_t* from, size_t bytes) {
  if (to == nullptr) return avx2<false>(lanes, nullptr, from, bytes);
  avx2<true>(lanes, to, from, bytes);
  _mm_sfence();
}

#endif

}  // namespace

size_t variants(std::array<Main, 3>& out) {
  size_t count = 0;
  out[count++] = plain;
#if defined(__x86_64__)
  out[count++] = withSse2;
  if (__builtin_cpu_supports("avx2")) out[count++] = withAvx2;
#endif
  return count;
}

Main main() {
  static const Main best = [] {
    std::array<Main, 3> all{};
    const size_t count = variants(all);
    return all[count - 1];
  }();
  return best;
}

void addLast(Lanes& lanes, const uint8_t* stripe) { addPlainly(lanes, stripe, kSecret + kLast); }

}  // namespace muster::xxh3_detail
