#include "cpu/ordered_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster {

namespace {

constexpr size_t kLine = 16;    // floats in a cache line
constexpr size_t kTile = 1024;  // 4 KiB: all running sums stay in the second-level cache, those in use in the first

// One step of a sum on a stack: puts `values` on it, then replaces the two on top by their sum, `merges` times.
struct Term {
  const float* values;
  uint32_t merges;
};

void addInto(float* __restrict out, const float* __restrict shard, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] += shard[i];
}

// The running sums of one tile; the lowest one is the result.
class Tiles {
 public:
  explicit Tiles(size_t depth) : above_((depth - 1) * kTile) {}

  void at(float* lowest) { lowest_ = lowest; }
  float* operator[](size_t level) { return level == 0 ? lowest_ : above_.data() + (level - 1) * kTile; }

 private:
  float* lowest_ = nullptr;
  std::vector<float> above_;
};

size_t depthOf(std::span<const Term> terms) {
  size_t depth = 0, deepest = 1;
  for (const Term& term : terms) {
    deepest = std::max(deepest, depth + (term.merges == 0 ? 1 : 0));
    depth = depth + 1 - term.merges;
  }
  return deepest;
}

void inTiles(std::span<const Term> terms, float* out, Range range, float divisor) {
  Tiles tiles(depthOf(terms));
  for (size_t begin = range.begin; begin < range.end; begin += kTile) {
    const size_t count = std::min(kTile, range.end - begin);
    tiles.at(out + begin);
    size_t top = 0;  // running sums so far
    for (const Term& term : terms) {
      if (term.merges == 0) {
        std::memcpy(tiles[top++], term.values + begin, count * sizeof(float));
        continue;
      }
      addInto(tiles[top - 1], term.values + begin, count);
      for (uint32_t merged = 1; merged < term.merges; merged++, top--) addInto(tiles[top - 2], tiles[top - 1], count);
    }
    if (divisor == 1) continue;
    for (size_t i = begin; i < begin + count; i++) out[i] /= divisor;
  }
}

#if defined(__x86_64__)

constexpr size_t kLarge = 64 * 1024;  // elements; 256 KiB do not stay in a cache anyway
constexpr size_t kStreamsMax = 16;    // as many shards are read side by side; a core follows no more

// A line of all shards at a time, in registers, so that every byte is read once and the sum is written once.
__attribute__((target("avx2"))) void inLines(std::span<const Term> terms, float* out, Range range, float divisor) {
  const __m256 by = _mm256_set1_ps(divisor);
  __m256 lows[kStreamsMax], highs[kStreamsMax];  // the running sums below the one in `low` and `high`
  for (size_t i = range.begin; i < range.end; i += kLine) {
    __m256 low = _mm256_loadu_ps(terms.front().values + i), high = _mm256_loadu_ps(terms.front().values + i + 8);
    size_t below = 0;
    for (const Term& term : terms.subspan(1)) {
      const __m256 nextLow = _mm256_loadu_ps(term.values + i), nextHigh = _mm256_loadu_ps(term.values + i + 8);
      if (term.merges == 0) {
        lows[below] = low;
        highs[below++] = high;
        low = nextLow;
        high = nextHigh;
        continue;
      }
      low = _mm256_add_ps(low, nextLow);
      high = _mm256_add_ps(high, nextHigh);
      for (uint32_t merged = 1; merged < term.merges; merged++) {
        below--;
        low = _mm256_add_ps(lows[below], low);
        high = _mm256_add_ps(highs[below], high);
      }
    }
    if (divisor != 1) {
      low = _mm256_div_ps(low, by);
      high = _mm256_div_ps(high, by);
    }
    _mm256_stream_ps(out + i, low);
    _mm256_stream_ps(out + i + 8, high);
  }
  _mm_sfence();
}

bool goesInLines(size_t shards, const float* out, size_t count) {
  static const bool capable = __builtin_cpu_supports("avx2");
  return capable && shards <= kStreamsMax && count >= kLarge && reinterpret_cast<uintptr_t>(out) % sizeof(__m256) == 0;
}

#endif

void sum(std::span<const Term> terms, float* out, Range range, float divisor) {
#if defined(__x86_64__)
  if (goesInLines(terms.size(), out + range.begin, range.end - range.begin)) {
    const size_t lines = (range.end - range.begin) / kLine * kLine;
    inLines(terms, out, {range.begin, range.begin + lines}, divisor);
    range.begin += lines;
  }
#endif
  inTiles(terms, out, range, divisor);
}

// Appends the terms of a node and returns the parts behind it.
std::span<const NodeSum> appendTerms(TreeNode node, std::span<const NodeSum> parts, std::vector<Term>& terms) {
  if (node.shards == 1 || parts.front().node == node) {
    terms.push_back({parts.front().values, 0});
    return parts.subspan(1);
  }
  const std::span<const NodeSum> behind = appendTerms(node.right(), appendTerms(node.left(), parts, terms), terms);
  terms.back().merges++;
  return behind;
}

// Whether a whole node is claimed; of one that is not, appends the claimed nodes in it.
bool collectClaimed(TreeNode node, std::span<const uint8_t> claims, std::vector<TreeNode>& nodes) {
  if (node.shards == 1) return claims[node.first] != 0;
  const size_t before = nodes.size();
  const bool left = collectClaimed(node.left(), claims, nodes);
  if (left) nodes.push_back(node.left());
  const bool right = collectClaimed(node.right(), claims, nodes);
  if (left && right) {
    nodes.resize(before);
    return true;
  }
  if (right) nodes.push_back(node.right());
  return false;
}

}  // namespace

Range sliceOf(size_t elements, size_t rank, size_t worldSize) {
  const size_t lines = (elements + kLine - 1) / kLine;
  const auto edge = [&](size_t r) { return std::min(elements, lines * r / worldSize * kLine); };
  return {edge(rank), edge(rank + 1)};
}

void orderedSum(std::span<const float* const> shards, float* out, Range range, float divisor) {
  std::vector<Term> terms;
  for (const float* shard : shards) terms.push_back({shard, terms.empty() ? 0U : 1U});
  sum(terms, out, range, divisor);
}

TreeNode TreeNode::left() const { return {first, std::bit_floor(shards - 1)}; }

TreeNode TreeNode::right() const { return {first + left().shards, shards - left().shards}; }

std::vector<TreeNode> claimedNodes(std::span<const uint8_t> claims) {
  const TreeNode root{0, static_cast<uint32_t>(claims.size())};
  std::vector<TreeNode> nodes;
  if (collectClaimed(root, claims, nodes)) nodes.push_back(root);
  return nodes;
}

void treeSum(TreeNode node, std::span<const NodeSum> parts, float* out, Range range) {
  std::vector<Term> terms;
  appendTerms(node, parts, terms);
  sum(terms, out, range, 1);
}

}  // namespace muster
