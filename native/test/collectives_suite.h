// What every backend of the collectives must do, as sentences. A backend is a way to make the ranks of a group in this process.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "check.h"
#include "core/collectives.h"
#include "support.h"

namespace muster::test {

using Ranks = std::vector<std::shared_ptr<Collectives>>;

constexpr uint64_t kCapacity = 3 * 1024 * 1024;

struct Backend {
  const char* name;
  std::function<Ranks(uint32_t worldSize)> open;  // ranks with room for kCapacity bytes
};

template <class Body>
void onRanks(uint32_t worldSize, Body body) {
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < worldSize; rank++) ranks.emplace_back([=] { body(rank); });
  for (std::thread& rank : ranks) rank.join();
}

inline Operation operationOf(Operation::Kind kind, DType dtype, uint64_t count) {
  Operation out;
  out.kind = kind;
  out.dtype = dtype;
  out.count = count;
  return out;
}

// Bits of every kind: both zeros, denormals, infinities, NaNs with payloads, and ordinary numbers of many sizes.
inline uint32_t bitsOf(uint32_t rank, uint64_t i) {
  static constexpr uint32_t kSpecial[] = {0x8000'0000, 0,           1,           0x8000'0003, 0x7F80'0000,
                                          0xFF80'0000, 0x7FC1'2345, 0x7F81'0001, 0x0080'0000, 0x007F'FFFF};
  uint64_t bits = (rank * 104'729 + i) * 0x9E37'79B9'7F4A'7C15;
  bits ^= bits >> 29;
  if (i % 7 == 0) return kSpecial[bits % std::size(kSpecial)];
  return (static_cast<uint32_t>(bits) & 0x87FF'FFFF) | 0x3800'0000;
}

inline std::vector<uint8_t> inputOf(DType dtype, uint32_t rank, uint64_t count) {
  std::vector<uint8_t> bytes(count * sizeOf(dtype));
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t bits = bitsOf(rank, i);
    const uint32_t put = dtype == DType::F32 ? bits : bits >> 16;
    std::memcpy(bytes.data() + i * sizeOf(dtype), &put, sizeOf(dtype));
  }
  return bytes;
}

// As inputOf, but only whole numbers small enough that every order of addition gives the same sum.
inline std::vector<uint8_t> wholeNumbersOf(DType dtype, uint32_t rank, uint64_t count) {
  std::vector<uint8_t> bytes(count * sizeOf(dtype));
  for (uint64_t i = 0; i < count; i++) {
    const auto value = static_cast<float>((rank * 31 + i) % 13) - 6;
    const uint16_t half = toBf16(value);
    if (dtype == DType::F32) std::memcpy(bytes.data() + i * 4, &value, 4);
    else std::memcpy(bytes.data() + i * 2, &half, 2);
  }
  return bytes;
}

inline void fill(Collectives& rank, const std::vector<uint8_t>& bytes) {
  std::copy(bytes.begin(), bytes.end(), rank.input().begin());
}

inline std::vector<uint8_t> resultOf(const Collectives& rank, Range bytes) {
  const auto all = rank.result();
  return {all.begin() + static_cast<ptrdiff_t>(bytes.begin), all.begin() + static_cast<ptrdiff_t>(bytes.end)};
}

void runComplianceSuite(const Backend& backend);

}  // namespace muster::test
