#include "core/xxh64.h"

#include <algorithm>

namespace muster {

namespace {

constexpr uint64_t kP1 = 0x9E3779B185EBCA87, kP2 = 0xC2B2AE3D27D4EB4F, kP3 = 0x165667B19E3779F9,
                   kP4 = 0x85EBCA77C2B2AE63, kP5 = 0x27D4EB2F165667C5;

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t step(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kP2, 31) * kP1; }
uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ step(0, lane)) * kP1 + kP4; }

uint64_t avalanche(uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kP2;
  hash = (hash ^ (hash >> 29)) * kP3;
  return hash ^ (hash >> 32);
}

}  // namespace

uint64_t xxh64(ByteView bytes, uint64_t seed) {
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = seed + kP5;
  if (left >= 32) {
    uint64_t a = seed + kP1 + kP2, b = seed + kP2, c = seed, d = seed - kP1;
    for (; left >= 32; at += 32, left -= 32) {
      a = step(a, load<uint64_t>(at));
      b = step(b, load<uint64_t>(at + 8));
      c = step(c, load<uint64_t>(at + 16));
      d = step(d, load<uint64_t>(at + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  }
  hash += bytes.size();
  for (; left >= 8; at += 8, left -= 8) hash = std::rotl(hash ^ step(0, load<uint64_t>(at)), 27) * kP1 + kP4;
  if (left >= 4) {
    hash = std::rotl(hash ^ (load<uint32_t>(at) * kP1), 23) * kP2 + kP3;
    at += 4, left -= 4;
  }
  for (; left > 0; at++, left--) hash = std::rotl(hash ^ (*at * kP5), 11) * kP1;
  return avalanche(hash);
}

std::string toHex(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 0; i < 16; i++) text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return text;
}

}  // namespace muster
