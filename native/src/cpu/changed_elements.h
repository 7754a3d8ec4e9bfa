// Which elements of two runs of bytes differ, compared as bit patterns: NaNs, signed zeros and denormals are nothing special.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

inline constexpr size_t kChangedTile = 4096;  // elements looked at in one call, at most

// Sets bit i % 64 of masks[i / 64] for every element i < count that differs, and clears the others of the last mask. An
// element has 2 or 4 bytes; count ≤ kChangedTile. The same on every processor; AVX2 is used where it is there.
void changedElements(const uint8_t* a, const uint8_t* b, size_t count, unsigned elementBytes, uint64_t* masks);

// The same with baseline instructions alone.
void changedElementsBaseline(const uint8_t* a, const uint8_t* b, size_t count, unsigned elementBytes, uint64_t* masks);

}  // namespace muster
