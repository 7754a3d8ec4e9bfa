#include "core/sha256.h"

#include <algorithm>

namespace muster {

namespace {

uint32_t bigEndian(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}

}  // namespace

void Sha256::compress(const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++) w[i] = bigEndian(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; i++) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Round[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; i++) state_[i] += mixed[i];
}

Sha256& Sha256::update(ByteView bytes) {
  total_ += bytes.size();
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), block_.size() - fill_);
    std::copy_n(bytes.begin(), count, block_.begin() + static_cast<std::ptrdiff_t>(fill_));
    fill_ += count;
    bytes = bytes.subspan(count);
    if (fill_ < block_.size()) break;
    compress(block_.data());
    fill_ = 0;
  }
  return *this;
}

Sha256Digest Sha256::finish() {
  const uint64_t bits = total_ * 8;
  constexpr uint8_t kZeros[64] = {};
  constexpr uint8_t kOne[1] = {0x80};
  update(kOne);
  update({kZeros, (fill_ <= 56 ? 56 : 120) - fill_});
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length);
  Sha256Digest out;
  for (size_t i = 0; i < 32; i++) out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

Sha256Digest hmacSha256(ByteView key, std::span<const ByteView> parts) {
  std::array<uint8_t, 64> padded{};
  if (key.size() > padded.size()) {
    const Sha256Digest hashed = Sha256().update(key).finish();
    std::copy(hashed.begin(), hashed.end(), padded.begin());
  } else {
    std::copy(key.begin(), key.end(), padded.begin());
  }
  std::array<uint8_t, 64> inner, outer;
  for (size_t i = 0; i < padded.size(); i++) {
    inner[i] = padded[i] ^ 0x36;
    outer[i] = padded[i] ^ 0x5c;
  }
  Sha256 hash;
  hash.update(inner);
  for (const ByteView part : parts) hash.update(part);
  return Sha256().update(outer).update(hash.finish()).finish();
}

bool equalInConstantTime(ByteView a, ByteView b) {
  if (a.size() != b.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); i++) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace muster
