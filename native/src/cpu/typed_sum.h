// Sums of typed elements, always in the order of their inputs and in float32; bfloat16 is rounded to nearest even, once.
#pragma once

#include <cstdint>

#include "cpu/ordered_sum.h"

namespace muster {

enum class DType : uint8_t { F32, Bf16, U8 };

constexpr size_t sizeOf(DType type) { return type == DType::F32 ? 4 : type == DType::Bf16 ? 2 : 1; }

float fromBf16(uint16_t bits);
// NaN payloads keep their upper bits and never become infinite.
uint16_t toBf16(float value);

// out[i] = ((inputs[0][i] + inputs[1][i]) + …) / divisor for i in `range`; out has the type of the inputs and overlaps none
// of them. A divisor of 1 changes no bit. Not for U8.
void typedSum(std::span<const uint8_t* const> inputs, DType type, Range range, float divisor, uint8_t* out);

// The same without division, as float32.
void partialSum(std::span<const uint8_t* const> inputs, DType type, Range range, float* out);

// into[i] = from[i] + into[i].
void addPartial(float* into, const float* from, size_t count);

// out[i] = partial[i] / divisor, in the type given. `out` may be `partial` itself for F32.
void finishSum(const float* partial, DType type, Range range, float divisor, uint8_t* out);

}  // namespace muster
