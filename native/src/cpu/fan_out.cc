#include "cpu/fan_out.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "core/shared_memory.h"
#include "cpu/ordered_sum.h"
#include "cpu/stream_copy.h"

namespace muster {

namespace {

constexpr size_t kTile = 256 * 1024;  // the source of a tile stays in the second-level cache for all targets
constexpr size_t kApart = 17 * 4096;  // so that the buffers of a tile do not share the same places of the caches

double processCpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// One core for each thread, of those that this process may use. A thread that cannot be pinned measures all the same.
void pinTo(size_t index) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  size_t left = index % static_cast<size_t>(CPU_COUNT(&allowed));
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

struct Pinned {
  size_t bytes;    // of each buffer
  size_t buffers;
  size_t threads;
  size_t samples;
  size_t passes = 1;  // over all tiles, in one sample
};

// Threads that each do a part of the tiles, over buffers that are warm.
using TileWork = std::function<void(const std::vector<uint8_t*>& buffers, Range bytes, size_t pass)>;

Result<std::vector<FanOutSample>> measurePinned(const Pinned& plan, const TileWork& workOnTile) {
  std::vector<Mapping> mappings;
  std::vector<uint8_t*> buffers;
  for (size_t i = 0; i < plan.buffers; i++) {
    Result<Mapping> memory = mapPrivate(plan.bytes + i * kApart);
    if (!memory.ok()) return memory.status();
    buffers.push_back(memory.value().data() + i * kApart);
    fillLikeWeights({buffers.back(), plan.bytes}, static_cast<uint32_t>(i));
    mappings.push_back(std::move(memory.value()));
  }
  std::barrier sync(static_cast<std::ptrdiff_t>(plan.threads + 1));
  const auto work = [&](size_t index) {
    pinTo(index);
    const size_t tiles = (plan.bytes + kTile - 1) / kTile;
    const size_t first = tiles * index / plan.threads, end = tiles * (index + 1) / plan.threads;
    for (size_t sample = 0; sample < plan.samples; sample++) {
      sync.arrive_and_wait();
      for (size_t pass = 0; pass < plan.passes; pass++)
        for (size_t tile = first; tile < end; tile++)
          workOnTile(buffers, {tile * kTile, std::min(plan.bytes, (tile + 1) * kTile)}, pass);
      sync.arrive_and_wait();
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 0; i < plan.threads; i++) pool.emplace_back(work, i);
  std::vector<FanOutSample> out;
  for (size_t sample = 0; sample < plan.samples; sample++) {
    const double cpuBefore = processCpuSeconds();
    const auto started = std::chrono::steady_clock::now();
    sync.arrive_and_wait();
    sync.arrive_and_wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    out.push_back({took.count(), processCpuSeconds() - cpuBefore});
  }
  for (std::thread& thread : pool) thread.join();
  return out;
}

}  // namespace

void fillLikeWeights(std::span<uint8_t> memory, uint32_t seed) {
  for (size_t at = 0; at < memory.size(); at += sizeof(float)) {
    seed = seed * 1'664'525 + 1'013'904'223;
    const float value = 1.0F + static_cast<float>(seed >> 8) * 0x1p-24F;
    std::memcpy(memory.data() + at, &value, std::min(sizeof value, memory.size() - at));
  }
}

Result<std::vector<FanOutSample>> measureFanOut(size_t bytes, size_t targets, size_t threads, size_t samples) {
  const auto copy = [](const std::vector<uint8_t*>& buffers, Range tile, size_t) {
    for (size_t target = 1; target < buffers.size(); target++)
      streamCopy(buffers[target] + tile.begin, buffers[0] + tile.begin, tile.end - tile.begin);
  };
  return measurePinned({bytes, targets + 1, threads, samples}, copy);
}

Result<std::vector<FanOutSample>> measureCopies(size_t bytes, size_t targets, size_t threads, size_t samples) {
  const auto copy = [](const std::vector<uint8_t*>& buffers, Range tile, size_t pass) {
    streamCopy(buffers[pass + 1] + tile.begin, buffers[0] + tile.begin, tile.end - tile.begin);
  };
  return measurePinned({bytes, targets + 1, threads, samples, targets}, copy);
}

Result<std::vector<FanOutSample>> measureAddUp(size_t bytes, size_t sources, size_t threads, size_t samples) {
  const auto add = [](const std::vector<uint8_t*>& buffers, Range tile, size_t) {
    std::vector<const float*> inputs;
    for (size_t i = 1; i < buffers.size(); i++) inputs.push_back(reinterpret_cast<const float*>(buffers[i]));
    orderedSum(inputs, reinterpret_cast<float*>(buffers[0]), {tile.begin / sizeof(float), tile.end / sizeof(float)});
  };
  return measurePinned({bytes, sources + 1, threads, samples}, add);
}

}  // namespace muster
