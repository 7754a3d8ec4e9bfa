#include "cpu/xxh3.h"

#include <bit>
#include <cstring>

#include "cpu/xxh3_stripes.h"

namespace muster {

namespace {

using xxh3_detail::kSecret;
using xxh3_detail::kStripe;
using xxh3_detail::load64;

constexpr uint64_t kMix1 = 0x165667919E3779F9, kMix2 = 0x9FB21C651E98DF25;
constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F, kPrime3 = 0x165667B19E3779F9;
constexpr size_t kMidMax = 240;          // longer inputs are hashed in stripes
constexpr size_t kWorthwhile = 64 * 1024;  // smaller copies fit in the cache and are better left there

uint32_t load32(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t avalanche(uint64_t hash) {
  hash = (hash ^ (hash >> 37)) * kMix1;
  return hash ^ (hash >> 32);
}

uint64_t oldAvalanche(uint64_t hash) {  // that of XXH64
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t mix16(const uint8_t* at, const uint8_t* secret) {
  return fold(load64(at) ^ load64(secret), load64(at + 8) ^ load64(secret + 8));
}

uint64_t upTo16(const uint8_t* at, size_t size) {
  if (size > 8) {
    const uint64_t low = load64(at) ^ load64(kSecret + 24) ^ load64(kSecret + 32);
    const uint64_t high = load64(at + size - 8) ^ load64(kSecret + 40) ^ load64(kSecret + 48);
    return avalanche(size + __builtin_bswap64(low) + high + fold(low, high));
  }
  if (size >= 4) {
    const uint64_t both = load32(at + size - 4) + (uint64_t{load32(at)} << 32);
    uint64_t hash = both ^ load64(kSecret + 8) ^ load64(kSecret + 16);
    hash = (hash ^ std::rotl(hash, 49) ^ std::rotl(hash, 24)) * kMix2;
    hash = (hash ^ ((hash >> 35) + size)) * kMix2;
    return hash ^ (hash >> 28);
  }
  if (size == 0) return oldAvalanche(load64(kSecret + 56) ^ load64(kSecret + 64));
  const uint32_t all = uint32_t{at[0]} << 16 | uint32_t{at[size >> 1]} << 24 | at[size - 1] | static_cast<uint32_t>(size) << 8;
  return oldAvalanche(all ^ uint64_t{load32(kSecret) ^ load32(kSecret + 4)});
}

uint64_t upTo240(const uint8_t* at, size_t size) {
  uint64_t hash = size * kPrime1;
  if (size <= 128) {
    for (size_t i = (size - 1) / 32 + 1; i-- > 0;)
      hash += mix16(at + 16 * i, kSecret + 32 * i) + mix16(at + size - 16 * (i + 1), kSecret + 32 * i + 16);
    return avalanche(hash);
  }
  for (size_t i = 0; i < 8; i++) hash += mix16(at + 16 * i, kSecret + 16 * i);
  hash = avalanche(hash);
  for (size_t i = 8; i < size / 16; i++) hash += mix16(at + 16 * i, kSecret + 16 * (i - 8) + 3);
  return avalanche(hash + mix16(at + size - 16, kSecret + 136 - 17));
}

uint64_t finish(const xxh3_detail::Lanes& lanes, size_t size) {
  uint64_t hash = size * kPrime1;
  for (size_t i = 0; i < 4; i++)
    hash += fold(lanes[2 * i] ^ load64(kSecret + 11 + 16 * i), lanes[2 * i + 1] ^ load64(kSecret + 19 + 16 * i));
  return avalanche(hash);
}

// `to` may be null: then nothing is copied.
uint64_t inStripes(uint8_t* to, const uint8_t* from, size_t size) {
  xxh3_detail::Lanes lanes = xxh3_detail::kStart;
  const size_t inMain = (size - 1) / kStripe * kStripe;  // the last stripe ends with the input, and may overlap
  xxh3_detail::main()(lanes, to, from, inMain);
  const uint8_t* end = from + size;
  if (to != nullptr) {
    std::memcpy(to + inMain, from + inMain, size - inMain);
    end = to + size;  // what was stored, not what the source says by now
  }
  xxh3_detail::addLast(lanes, end - kStripe);
  return finish(lanes, size);
}

}  // namespace

uint64_t xxh3(const uint8_t* bytes, size_t size) {
  if (size <= 16) return upTo16(bytes, size);
  if (size <= kMidMax) return upTo240(bytes, size);
  return inStripes(nullptr, bytes, size);
}

uint64_t copyAndHash(uint8_t* to, const uint8_t* from, size_t size) {
  if (size >= kWorthwhile && reinterpret_cast<uintptr_t>(to) % 16 == 0) return inStripes(to, from, size);
  if (size > 0) std::memcpy(to, from, size);
  return xxh3(to, size);
}

}  // namespace muster
