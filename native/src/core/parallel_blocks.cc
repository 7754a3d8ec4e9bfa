#include "core/parallel_blocks.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace muster {

namespace {

constexpr size_t kThreadsMax = 4;                // a memory bus has enough of them
constexpr size_t kPerThread = size_t{16} << 20;  // less is done before another thread has begun

size_t threadsFor(size_t bytes) {
  cpu_set_t allowed;
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const size_t cores = known ? static_cast<size_t>(CPU_COUNT(&allowed)) : 1;
  return std::clamp<size_t>(bytes / kPerThread, 1, std::min(cores, kThreadsMax));
}

// Blocks, taken by several threads in order.
class Blocks {
 public:
  Blocks(size_t total, const BlockWork& work, const MayGoOn& mayGoOn) : total_(total), work_(work), mayGoOn_(mayGoOn) {}

  void take() {
    const size_t count = total_ / kBlockBytes + (total_ % kBlockBytes != 0);
    for (size_t block = next_++; block < count; block = next_++) {
      if (Status may = mayGoOn_(); !may.ok()) return stop(std::move(may));
      const size_t at = block * kBlockBytes;
      work_(block, at, std::min(kBlockBytes, total_ - at));
    }
  }

  Status stopped() const { return stopped_; }

 private:
  void stop(Status why) {
    next_ = total_ / kBlockBytes + 1;
    const std::lock_guard lock(mutex_);
    if (stopped_.ok()) stopped_ = std::move(why);
  }

  const size_t total_;
  const BlockWork& work_;
  const MayGoOn& mayGoOn_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  Status stopped_;
};

}  // namespace

Status forEachBlock(size_t total, const BlockWork& work, const MayGoOn& mayGoOn) {
  Blocks blocks(total, work, mayGoOn);
  std::vector<std::thread> helpers;
  try {
    for (size_t i = 1; i < threadsFor(total); i++) helpers.emplace_back([&blocks] { blocks.take(); });
  } catch (const std::system_error&) {
    // No thread to be had: those that there are do it all.
  }
  blocks.take();
  for (std::thread& helper : helpers) helper.join();
  return blocks.stopped();
}

}  // namespace muster
