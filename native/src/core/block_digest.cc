#include "core/block_digest.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "cpu/xxh3.h"

namespace muster {

namespace {

constexpr size_t kThreadsMax = 4;                    // a memory bus has enough of them
constexpr size_t kPerThread = size_t{16} << 20;      // less is done before another thread has begun

size_t threadsFor(size_t bytes) {
  cpu_set_t allowed;
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const size_t cores = known ? static_cast<size_t>(CPU_COUNT(&allowed)) : 1;
  return std::clamp<size_t>(bytes / kPerThread, 1, std::min(cores, kThreadsMax));
}

// Blocks of one input, taken by several threads in order.
class Work {
 public:
  Work(ByteView from, uint8_t* to, const MayGoOn& mayGoOn)
      : from_(from), to_(to), mayGoOn_(mayGoOn), blocks_(BlockDigest::countOf(from.size())) {}

  void take() {
    for (size_t block = next_++; block < blocks_.size(); block = next_++) {
      if (Status may = mayGoOn_(); !may.ok()) return stop(std::move(may));
      const size_t at = block * BlockDigest::kBlockBytes;
      const ByteView bytes = from_.subspan(at, std::min(BlockDigest::kBlockBytes, from_.size() - at));
      blocks_[block] = to_ == nullptr ? BlockDigest::of(bytes) : copyAndHash(to_ + at, bytes.data(), bytes.size());
    }
  }

  Result<Digested> finish() {
    if (!stopped_.ok()) return stopped_;
    return Digested{BlockDigest::rootOf(blocks_, from_.size()), std::move(blocks_)};
  }

 private:
  void stop(Status why) {
    next_ = blocks_.size();
    const std::lock_guard lock(mutex_);
    if (stopped_.ok()) stopped_ = std::move(why);
  }

  const ByteView from_;
  uint8_t* const to_;
  const MayGoOn& mayGoOn_;
  std::atomic<size_t> next_{0};
  std::vector<uint64_t> blocks_;
  std::mutex mutex_;
  Status stopped_;
};

}  // namespace

uint64_t BlockDigest::of(ByteView block) { return xxh3(block.data(), block.size()); }

uint64_t BlockDigest::rootOf(const std::vector<uint64_t>& blocks, uint64_t total) {
  std::vector<uint64_t> words = blocks;
  words.push_back(total);
  return xxh3(reinterpret_cast<const uint8_t*>(words.data()), words.size() * sizeof(uint64_t));
}

Result<Digested> copyAndDigest(ByteView from, uint8_t* to, const MayGoOn& mayGoOn) {
  Work work(from, to, mayGoOn);
  std::vector<std::thread> helpers;
  try {
    for (size_t i = 1; i < threadsFor(from.size()); i++) helpers.emplace_back([&work] { work.take(); });
  } catch (const std::system_error&) {
    // No thread to be had: those that there are do it all.
  }
  work.take();
  for (std::thread& helper : helpers) helper.join();
  return work.finish();
}

uint64_t digestOf(ByteView bytes) {
  return copyAndDigest(bytes, nullptr, [] { return Status{}; }).value().root;
}

}  // namespace muster
