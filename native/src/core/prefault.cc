#include "core/prefault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "core/cores.h"
#include "core/crew.h"
#include "core/limits.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace muster {

namespace {

// The kernel keeps everybody who wants to map something waiting for as long as such a call lasts, the thread of JavaScript too.
bool populate(uint8_t* data, size_t bytes, const Wanted& wanted) {
  for (size_t at = 0; at < bytes; at += kHugePage) {
    if (!wanted()) return false;
    ::madvise(data + at, std::min(kHugePage, bytes - at), MADV_POPULATE_WRITE);
  }
  return true;
}

// One small page in each huge one, and then all of them in one: many times faster than all the small ones. MADV_COLLAPSE (Linux 6.1) does so
// wherever huge pages are not forbidden, also where nothing else may have them.
bool backPiece(std::span<uint8_t> piece, const Wanted& wanted) {
  if (!wanted()) return false;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = std::min((kHugePage - reinterpret_cast<uintptr_t>(piece.data()) % kHugePage) % kHugePage, piece.size());
  const std::span<uint8_t> huge = piece.subspan(before, (piece.size() - before) / kHugePage * kHugePage);
  for (size_t at = 0; at < huge.size(); at += kHugePage) ::madvise(huge.data() + at, page, MADV_POPULATE_WRITE);
  if (huge.empty() || ::madvise(huge.data(), huge.size(), MADV_COLLAPSE) != 0) return populate(piece.data(), piece.size(), wanted);
  const size_t done = before + huge.size();
  return populate(piece.data(), before, wanted) && populate(piece.data() + done, piece.size() - done, wanted);
}

// Whole pages around a range: what lies beside it in the same page has it too.
std::span<uint8_t> toPages(std::span<uint8_t> range) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(range.data()), end = begin + range.size();
  const size_t before = begin % page, after = (page - end % page) % page;
  return {range.data() - before, before + range.size() + after};
}

}  // namespace

std::vector<std::span<uint8_t>> piecesOf(std::span<const std::span<uint8_t>> ranges, size_t step) {
  std::vector<std::span<uint8_t>> pieces;
  for (std::span<uint8_t> rest : ranges) {
    while (!rest.empty()) {
      const size_t part = std::min(rest.size(), step - reinterpret_cast<uintptr_t>(rest.data()) % step);
      pieces.push_back(rest.first(part));
      rest = rest.subspan(part);
    }
  }
  return pieces;
}

bool prefault(std::span<const std::span<uint8_t>> ranges, size_t threads, const Wanted& wanted) {
  std::vector<std::span<uint8_t>> whole;
  for (const std::span<uint8_t>& range : ranges)
    if (!range.empty()) whole.push_back(toPages(range));
  const std::vector<std::span<uint8_t>> pieces = piecesOf(whole, kPrefaultPiece);
  std::atomic<size_t> next{0};
  std::atomic<bool> complete{true};
  // The kernel clears a huge page in one go, and whoever wakes meanwhile waits for it: one core stays free for them.
  const size_t cores = std::max<size_t>(usableCores(), 2) - 1;
  onCrew(std::min({threads, cores, kBusThreads, pieces.size()}), [&] {
    for (size_t at = next++; at < pieces.size() && complete; at = next++)
      if (!backPiece(pieces[at], wanted)) complete = false;
  });
  return complete;
}

}  // namespace muster
