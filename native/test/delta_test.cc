// The delta of a block: what comes out is what went in, to the bit, and nothing hostile gets anywhere.
#include <algorithm>
#include <random>

#include "check.h"
#include "core/delta_block.h"
#include "core/block_digest.h"
#include "core/xxh64.h"
#include "cpu/changed_elements.h"

using namespace muster;

namespace {

Bytes randomBytes(size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Changes about `share` of the elements: mostly the last bits, now and then all of them.
Bytes changedFrom(const Bytes& base, unsigned width, double share, std::mt19937_64& random) {
  Bytes target = base;
  for (size_t at = 0; at + width <= target.size(); at += width) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 >= share) continue;
    uint32_t value = 0;
    std::memcpy(&value, &target[at], width);
    value = random() % 16 == 0 ? static_cast<uint32_t>(random()) : value + (random() % 2 == 0 ? 1u : ~0u);
    std::memcpy(&target[at], &value, width);
  }
  return target;
}

bool roundTrips(const Bytes& base, const Bytes& target, unsigned width) {
  DeltaEncoder encoder;
  const std::optional<Bytes> delta = encoder.encode(base, target, width, 16 * target.size() + 64);
  if (!delta) return false;
  Bytes block = base;
  return applyDelta(*delta, block).ok() && block == target;
}

}  // namespace

TEST("a block comes back to the bit at every density, length and element size") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 400; round++) {
    const unsigned width = random() % 2 == 0 ? 2 : 4;
    const size_t length = round < 40 ? static_cast<size_t>(round) : random() % 70'000;
    constexpr double kShares[] = {0, 0.0005, 0.01, 0.1, 0.9, 1};
    const Bytes base = randomBytes(length, random);
    CHECK(roundTrips(base, changedFrom(base, width, kShares[random() % 6], random), width));
    CHECK(roundTrips(base, randomBytes(length, random), width));
  }
}

TEST("NaN payloads, signed zeros, infinities and denormals are bits like others") {
  constexpr uint16_t kHalves[] = {0x7fc0, 0x7f81, 0xffff, 0x0000, 0x8000, 0x0001, 0x8001, 0x7f80, 0xff80, 0x3f80};
  constexpr uint32_t kWholes[] = {0x7fc00000, 0x7f800001, 0xffffffff, 0, 0x80000000, 1, 0x80000001, 0x7f800000, 0x3f800000};
  for (const uint16_t a : kHalves)
    for (const uint16_t b : kHalves) CHECK(roundTrips(ByteWriter().number(a).bytes(), ByteWriter().number(b).bytes(), 2));
  for (const uint32_t a : kWholes)
    for (const uint32_t b : kWholes) CHECK(roundTrips(ByteWriter().number(a).bytes(), ByteWriter().number(b).bytes(), 4));
}

TEST("gaps of every length are found again, also the longest") {
  for (const size_t gap : {size_t{0}, size_t{1}, size_t{254}, size_t{255}, size_t{256}, size_t{65'789}, size_t{65'790}, size_t{65'791}, size_t{400'000}}) {
    const Bytes base(2 * (gap + 3));
    Bytes target = base;
    target[0] = 1;
    target[2 * (gap + 1)] = 7;
    CHECK(roundTrips(base, target, 2));
  }
}

TEST("its bytes are these, for ever") {
  const Bytes base = {0x00, 0x3f, 0x00, 0x3f, 0x10, 0x3f, 0xff, 0x7f, 0x05};
  const Bytes target = {0x00, 0x3f, 0x01, 0x3f, 0x10, 0x3f, 0x34, 0x12, 0x06};
  const Bytes expected = {2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, /* gaps */ 1, 1, /* by */ 1, 0x80, /* escape */ 0x34, 0x12, /* tail */ 6};
  CHECK(DeltaEncoder().encode(base, target, 2, 1000) == expected);
  std::mt19937_64 random(3);
  const Bytes block = randomBytes(1 << 20, random);
  const std::optional<Bytes> delta = DeltaEncoder().encode(block, changedFrom(block, 4, 0.02, random), 4, 1 << 20);
  CHECK(delta && toHex(digestOf(*delta)) == "5b5d3e323ea8f383");
}

TEST("both ways of scanning see the same") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; round++) {
    const unsigned width = random() % 2 == 0 ? 2 : 4;
    const size_t count = random() % (kChangedTile + 1);
    const Bytes a = randomBytes(count * width, random);
    const Bytes b = changedFrom(a, width, 0.05, random);
    uint64_t wide[kChangedTile / 64] = {}, plain[kChangedTile / 64] = {};
    changedElements(a.data(), b.data(), count, width, wide);
    changedElementsBaseline(a.data(), b.data(), count, width, plain);
    CHECK(std::memcmp(wide, plain, sizeof wide) == 0);
  }
}

TEST("at one changed element in a hundred it takes at most 1.2 percent of the bytes") {
  std::mt19937_64 random(9);
  for (const unsigned width : {2u, 4u}) {
    const Bytes base = randomBytes(1 << 20, random);
    const std::optional<Bytes> delta = DeltaEncoder().encode(base, changedFrom(base, width, 0.01, random), width, 1 << 20);
    CHECK(delta && static_cast<double>(delta->size()) <= 0.012 * (1 << 20));
  }
}

TEST("nothing comes out when it would not pay, or when the blocks do not belong together") {
  std::mt19937_64 random(13);
  const Bytes base = randomBytes(100'000, random);
  const Bytes other = randomBytes(100'000, random);
  CHECK(!DeltaEncoder().encode(base, other, 2, 50'000));
  CHECK(!DeltaEncoder().encode(base, randomBytes(99'999, random), 2, 50'000));
  CHECK(!DeltaEncoder().encode(base, other, 3, 500'000));
  CHECK(DeltaEncoder().encode(base, base, 2, kDeltaHeaderBytes).has_value());
}

TEST("a delta that was cut, lengthened or changed is refused, or yields some block; it never writes outside") {
  std::mt19937_64 random(17);
  constexpr size_t kLength = 3001;
  const Bytes base = randomBytes(kLength, random);
  const Bytes good = *DeltaEncoder().encode(base, changedFrom(base, 2, 0.05, random), 2, 10'000);
  for (size_t length = 0; length < good.size(); length++) {
    Bytes block = base;
    CHECK(applyDelta(ByteView(good).first(length), block).code == Code::Corrupt);
  }
  for (int round = 0; round < 20'000; round++) {
    Bytes bad = good;
    for (size_t flips = 1 + random() % 4; flips > 0; flips--) bad[random() % (round % 2 == 0 ? 16 : bad.size())] ^= static_cast<uint8_t>(1u << random() % 8);
    Bytes guarded(kLength + 64, 0xa5);
    for (size_t i = 0; i < kLength; i++) guarded[32 + i] = base[i];
    const Status applied = applyDelta(bad, std::span(guarded).subspan(32, kLength));
    CHECK(applied.ok() || applied.code == Code::Corrupt);
    CHECK(std::all_of(guarded.begin(), guarded.begin() + 32, [](uint8_t byte) { return byte == 0xa5; }));
    CHECK(std::all_of(guarded.end() - 32, guarded.end(), [](uint8_t byte) { return byte == 0xa5; }));
  }
}
