#include "cpu/typed_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace muster {

namespace {

constexpr size_t kTile = 4096;  // elements; 16 KiB of float32 stay in the first-level cache

void divide(float* __restrict out, size_t count, float divisor) {
  if (divisor == 1) return;
  for (size_t i = 0; i < count; i++) out[i] /= divisor;
}

void widen(float* __restrict out, const uint16_t* __restrict from, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] = fromBf16(from[i]);
}

void addWidened(float* __restrict out, const uint16_t* __restrict from, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] += fromBf16(from[i]);
}

void narrow(uint16_t* __restrict out, const float* __restrict from, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] = toBf16(from[i]);
}

// One tile, starting at `begin`, as float32.
void sumTile(std::span<const uint8_t* const> inputs, size_t begin, size_t count, float* out) {
  const auto at = [&](size_t i) { return reinterpret_cast<const uint16_t*>(inputs[i]) + begin; };
  widen(out, at(0), count);
  for (size_t i = 1; i < inputs.size(); i++) addWidened(out, at(i), count);
}

std::vector<const float*> floatsOf(std::span<const uint8_t* const> inputs) {
  std::vector<const float*> floats;
  for (const uint8_t* each : inputs) floats.push_back(reinterpret_cast<const float*>(each));
  return floats;
}

}  // namespace

float fromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t toBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto upper = static_cast<uint16_t>(bits >> 16);
  const auto rounded = static_cast<uint16_t>((bits + 0x7FFF + (upper & 1)) >> 16);
  const bool nan = (bits & 0x7FFF'FFFF) > 0x7F80'0000;
  const auto kept = static_cast<uint16_t>((upper & 0x7F) == 0 ? upper | 0x40 : upper);
  return nan ? kept : rounded;
}

void typedSum(std::span<const uint8_t* const> inputs, DType type, Range range, float divisor, uint8_t* out) {
  if (type == DType::F32) return orderedSum(floatsOf(inputs), reinterpret_cast<float*>(out), range, divisor);
  for (size_t begin = range.begin; begin < range.end; begin += kTile) {
    const size_t count = std::min(kTile, range.end - begin);
    alignas(64) float tile[kTile];
    sumTile(inputs, begin, count, tile);
    divide(tile, count, divisor);
    narrow(reinterpret_cast<uint16_t*>(out) + begin, tile, count);
  }
}

void partialSum(std::span<const uint8_t* const> inputs, DType type, Range range, float* out) {
  if (type == DType::F32) return typedSum(inputs, type, range, 1, reinterpret_cast<uint8_t*>(out));
  for (size_t begin = range.begin; begin < range.end; begin += kTile)
    sumTile(inputs, begin, std::min(kTile, range.end - begin), out + begin);
}

void addPartial(float* into, const float* from, size_t count) {
  for (size_t i = 0; i < count; i++) into[i] = from[i] + into[i];
}

void finishSum(const float* partial, DType type, Range range, float divisor, uint8_t* out) {
  for (size_t begin = range.begin; begin < range.end; begin += kTile) {
    const size_t count = std::min(kTile, range.end - begin);
    alignas(64) float tile[kTile];
    std::memcpy(tile, partial + begin, count * sizeof(float));
    divide(tile, count, divisor);
    if (type == DType::F32) std::memcpy(out + begin * sizeof(float), tile, count * sizeof(float));
    else narrow(reinterpret_cast<uint16_t*>(out) + begin, tile, count);
  }
}

}  // namespace muster
