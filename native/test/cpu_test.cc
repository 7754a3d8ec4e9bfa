// The sums and the streaming copy against the plain way to write them.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "check.h"
#include "core/bytes.h"
#include "cpu/fan_out.h"
#include "cpu/ordered_sum.h"
#include "cpu/stream_copy.h"
#include "cpu/typed_sum.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

TEST("the limit of the host is measured with bytes like those of weights: no line of the cache is all zeros") {
  constexpr size_t kLine = 64, kBytes = 4096 + 3;
  for (const uint32_t seed : {0u, 1u, 7u}) {
    std::vector<uint8_t> memory(kBytes);
    fillLikeWeights(memory, seed);
    for (size_t at = 0; at + kLine <= kBytes; at += kLine) {
      float values[kLine / sizeof(float)];
      std::memcpy(values, memory.data() + at, kLine);
      for (const float value : values) CHECK(value >= 1 && value < 2);
      CHECK(values[0] != values[1]);
    }
  }
}

TEST("slices cover every element once, whatever the number of ranks") {
  for (const size_t elements : {1u, 15u, 16u, 17u, 1000u, 4096u, 100'003u})
    for (size_t world = 1; world <= 9; world++) {
      size_t next = 0;
      for (size_t rank = 0; rank < world; rank++) {
        const Range slice = sliceOf(elements, rank, world);
        CHECK(slice.begin == next && slice.end >= slice.begin);
        next = slice.end;
      }
      CHECK(next == elements);
    }
}

TEST("the sum has the bits of adding shard by shard, whoever adds which part") {
  constexpr size_t kElements = 10'007, kShards = 8;
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 100);
  std::vector<std::vector<float>> shards(kShards, std::vector<float>(kElements));
  std::vector<const float*> pointers;
  for (auto& shard : shards) {
    for (float& value : shard) value = normal(random);
    pointers.push_back(shard.data());
  }
  std::vector<float> expected = shards[0];
  for (size_t s = 1; s < kShards; s++)
    for (size_t i = 0; i < kElements; i++) expected[i] += shards[s][i];
  for (size_t world = 1; world <= 5; world++) {
    std::vector<float> sum(kElements, -1);
    for (size_t rank = 0; rank < world; rank++) orderedSum(pointers, sum.data(), sliceOf(kElements, rank, world));
    CHECK(std::memcmp(sum.data(), expected.data(), kElements * sizeof(float)) == 0);
  }
}

TEST("a large sum has the bits of a small one, whatever it is divided by and however many are added up") {
  constexpr size_t kElements = 200'000;
  for (const size_t count : {1u, 2u, 8u, 16u, 17u}) {
    std::vector<std::vector<float>> shards(count, std::vector<float>(kElements));
    std::vector<const float*> pointers;
    for (size_t s = 0; s < count; s++) {
      for (size_t i = 0; i < kElements; i++) shards[s][i] = std::sin(static_cast<float>(i * (s + 3))) * (i % 7 == s % 7 ? 1e20f : 1e-3f);
      pointers.push_back(shards[s].data());
    }
    for (const float divisor : {1.0f, 3.0f}) {
      std::vector<float> expected = shards[0];
      for (size_t s = 1; s < count; s++)
        for (size_t i = 0; i < kElements; i++) expected[i] += shards[s][i];
      if (divisor != 1)
        for (float& each : expected) each /= divisor;
      for (const size_t shift : {0u, 3u}) {  // of the target, against whole lines
        std::vector<float> memory(kElements + 32, -1);
        float* out = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % 16) % 16 + shift;
        orderedSum(pointers, out, {0, kElements - 5}, divisor);
        CHECK(std::memcmp(out, expected.data(), (kElements - 5) * sizeof(float)) == 0);
        CHECK(out[kElements - 5] == -1);
      }
    }
  }
}

TEST("a sum along the tree has the same bits from whatever nodes it is put together, small or large") {
  std::mt19937 random(12);
  std::normal_distribution<float> normal(0, 100);
  for (const uint32_t count : {1u, 2u, 3u, 5u, 8u, 13u, 16u, 17u, 32u, 100u}) {
    const size_t elements = count <= 17 ? 70'001 : 1'500;
    std::vector<std::vector<float>> shards(count, std::vector<float>(elements));
    for (auto& shard : shards)
      for (float& value : shard) value = normal(random);
    const TreeNode root{0, count};
    std::vector<float> expected(elements);
    for (size_t i = 0; i < elements; i++) expected[i] = alongTree(0, count, [&](uint32_t s) { return shards[s][i]; });
    const auto leavesOf = [&](const TreeNode& node) {
      std::vector<NodeSum> leaves;
      for (uint32_t s = node.first; s < node.first + node.shards; s++) leaves.push_back({{s, 1}, shards[s].data()});
      return leaves;
    };
    for (const uint32_t ranks : {1u, 2u, 3u, 7u}) {
      std::vector<std::vector<float>> sums;
      std::vector<NodeSum> parts;
      sums.reserve(count);
      for (uint32_t rank = 0; rank < ranks; rank++) {
        std::vector<uint8_t> claims(count);
        for (uint32_t s = 0; s < count; s++) claims[s] = s * ranks / count == rank ? 1 : 0;
        for (const TreeNode& node : claimedNodes(claims)) {
          treeSum(node, leavesOf(node), sums.emplace_back(elements).data(), {0, elements});
          parts.push_back({node, sums.back().data()});
        }
      }
      if (ranks == 1) CHECK(parts.size() == 1 && parts[0].node == root);
      std::vector<float> memory(elements + 16, -1);
      float* sum = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % 16) % 16;  // whole lines
      treeSum(root, parts, sum, {0, elements});
      CHECK(std::memcmp(sum, expected.data(), elements * sizeof(float)) == 0);
    }
  }
}

TEST("the claimed nodes of a tree are the largest ones that are whole, in order") {
  const auto nodesOf = [](std::vector<uint8_t> claims) { return claimedNodes(claims); };
  CHECK(nodesOf({1, 1, 1, 1, 1, 1}) == std::vector<TreeNode>({{0, 6}}));
  CHECK(nodesOf({1, 1, 1, 1, 1, 0}) == std::vector<TreeNode>({{0, 4}, {4, 1}}));
  CHECK(nodesOf({0, 1, 1, 1, 1, 1}) == std::vector<TreeNode>({{1, 1}, {2, 2}, {4, 2}}));
  CHECK(nodesOf({0, 1, 1, 0, 0, 0}) == std::vector<TreeNode>({{1, 1}, {2, 1}}));
  CHECK(nodesOf({0, 0}).empty());
}

TEST("bfloat16 is the nearest to a float32, the even one of two, and a NaN stays one with its upper bits") {
  struct Narrowed {
    uint32_t from;
    uint16_t to;
  };
  constexpr Narrowed kNarrowed[] = {
      {0x3F80'7FFF, 0x3F80}, {0x3F80'8000, 0x3F80}, {0x3F80'8001, 0x3F81},  // below, at and above the middle, from an even one
      {0x3F81'7FFF, 0x3F81}, {0x3F81'8000, 0x3F82}, {0xBF81'8000, 0xBF82},  // and from an odd one
      {0x3FFF'8000, 0x4000}, {0x3FFF'FFFF, 0x4000},                         // into the next power of two
      {0x7F7F'7FFF, 0x7F7F}, {0x7F7F'8000, 0x7F80}, {0xFF7F'FFFF, 0xFF80},  // over the largest number: infinity
      {0x7F80'0000, 0x7F80}, {0xFF80'0000, 0xFF80},
      {0x7FC1'2345, 0x7FC1}, {0x7F81'FFFF, 0x7F81}, {0xFF81'0001, 0xFF81},  // NaNs are cut
      {0x7FFF'FFFF, 0x7FFF}, {0xFFFF'FFFF, 0xFFFF},                         // and do not overflow into a zero,
      {0x7F80'0001, 0x7FC0}, {0xFF80'FFFF, 0xFFC0},                         // nor become an infinity
      {0x0000'0000, 0x0000}, {0x8000'0000, 0x8000},
      {0x0000'8000, 0x0000}, {0x8000'8001, 0x8001}, {0x0001'8000, 0x0002},  // denormals
      {0x8000'0001, 0x8000}, {0x007F'FFFF, 0x0080},
  };
  for (const auto& [from, to] : kNarrowed) {
    const uint16_t got = toBf16(std::bit_cast<float>(from));
    if (got != to) std::printf("%08x became %04x\n", from, got);
    CHECK(got == to);
  }
  for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
    const uint16_t back = toBf16(fromBf16(static_cast<uint16_t>(bits)));
    if (back != bits) std::printf("%04x came back as %04x\n", bits, back);
    CHECK(back == bits);
  }
}

TEST("a streaming copy copies every byte and no other, at any alignment") {
  Bytes from(600'000), to(from.size() + 256);
  for (size_t i = 0; i < from.size(); i++) from[i] = static_cast<uint8_t>(i * 31 + i / 256);
  for (const size_t size : {0u, 1u, 63u, 4096u, 300'000u, 524'289u})
    for (const size_t shift : {0u, 1u, 33u, 64u}) {
      std::fill(to.begin(), to.end(), uint8_t{0xee});
      streamCopy(to.data() + shift, from.data() + shift % 7, size);
      CHECK(std::memcmp(to.data() + shift, from.data() + shift % 7, size) == 0);
      CHECK(to[shift + size] == 0xee && (shift == 0 || to[shift - 1] == 0xee));
    }
}

TEST("many copies at once copy every byte and no other, small and large together, empty ones without addresses") {
  Bytes from(600'000), to(from.size(), 0xee), expected = to;
  for (size_t i = 0; i < from.size(); i++) from[i] = static_cast<uint8_t>(i * 31 + i / 256);
  for (const size_t limit : {2'000u, 600'000u}) {  // below and above what is worth streaming
    std::vector<Copy> copies{{nullptr, nullptr, 0}};
    for (size_t at = 5, size = 1; at + size < limit; at += size + 3, size = size * 3 % 70'001)
      copies.push_back({to.data() + at, from.data() + at, size});
    for (const Copy& each : copies)
      if (each.bytes > 0) std::copy_n(each.from, each.bytes, expected.begin() + (each.to - to.data()));
    streamCopyAll(copies);
    CHECK(copies.size() > 6 && to == expected);
  }
}

TEST("the limits of the host are measured as often as asked") {
  for (const auto measure : {measureFanOut, measureCopies, measureAddUp}) {
    const auto samples = measure(1'000'000, 3, 2, 4);
    REQUIRE_OK(samples);
    CHECK(samples.value().size() == 4);
    for (const FanOutSample& sample : samples.value()) CHECK(sample.seconds > 0);
  }
}
