#include "core/parallel_blocks.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <vector>

#include "core/cores.h"
#include "core/crew.h"
#include "core/limits.h"

namespace muster {

namespace {

size_t threadsFor(size_t bytes) {
  const size_t wanted = std::clamp<size_t>(bytes / kBytesPerThread, 1, kBusThreads);
  return wanted == 1 ? 1 : std::min(wanted, usableCores());
}

// Blocks, taken by several threads in order.
class Blocks {
 public:
  Blocks(const std::vector<size_t>& pieces, const BlockWork& work, const MayGoOn& mayGoOn)
      : pieces_(pieces), work_(work), mayGoOn_(mayGoOn) {
    for (const size_t bytes : pieces) {
      firsts_.push_back(count_);
      count_ += bytes / kBlockBytes + (bytes % kBlockBytes != 0);
    }
  }

  void take() {
    size_t piece = 0;
    for (size_t block = next_++; block < count_; block = next_++) {
      if (Status may = mayGoOn_(); !may.ok()) return stop(std::move(may));
      while (piece + 1 < firsts_.size() && firsts_[piece + 1] <= block) piece++;  // a thread's blocks only go up
      const size_t index = block - firsts_[piece];
      const size_t at = index * kBlockBytes;
      work_({piece, index, at, std::min(kBlockBytes, pieces_[piece] - at)});
    }
  }

  Status stopped() const { return stopped_; }

 private:
  void stop(Status why) {
    next_ = count_;
    const std::lock_guard lock(mutex_);
    if (stopped_.ok()) stopped_ = std::move(why);
  }

  const std::vector<size_t>& pieces_;
  std::vector<size_t> firsts_;  // number of each piece's first block
  size_t count_ = 0;            // of all blocks
  const BlockWork& work_;
  const MayGoOn& mayGoOn_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  Status stopped_;
};

}  // namespace

Status forEachBlock(const std::vector<size_t>& pieces, const BlockWork& work, const MayGoOn& mayGoOn) {
  Blocks blocks(pieces, work, mayGoOn);
  const size_t total = std::accumulate(pieces.begin(), pieces.end(), size_t{0});
  const size_t threads = threadsFor(total);
  if (threads == 1) blocks.take();
  else onCrew(threads, [&blocks] { blocks.take(); });
  return blocks.stopped();
}

}  // namespace muster
