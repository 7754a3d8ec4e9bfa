// Memory gets its pages before it is used: a page fault costs more than the copy that takes it, and every process that maps a segment would
// take it again. Best effort: what has no pages yet gets them when it is touched.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace muster {

// Still wanted? Asked by several threads, every few milliseconds.
using Wanted = std::function<bool()>;

// Backs the ranges with pages, with huge ones where the kernel has them, on up to `threads` threads, but fewer than there are cores and no more
// than pays off. True when all of it has pages; false when it was not wanted any more.
bool prefault(std::span<const std::span<uint8_t>> ranges, size_t threads, const Wanted& wanted);

// How prefault shares its work out: pieces that end at multiples of `step` bytes in memory.
std::vector<std::span<uint8_t>> piecesOf(std::span<const std::span<uint8_t>> ranges, size_t step);

}  // namespace muster
