#include "core/unmapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/limits.h"
#include "core/usage.h"

namespace muster {

namespace {

void unmapNow(uint8_t* data, size_t size) {
  ::munmap(data, size);
  usage().mappedBytes -= size;
}

class Unmapper {
 public:
  // Lives as long as the process, as its thread does.
  static Unmapper& one() {
    static Unmapper* const unmapper = new Unmapper();
    return *unmapper;
  }

  void give(uint8_t* data, size_t size) {
    try {
      const std::lock_guard lock(mutex_);
      if (process_ != ::getpid()) {  // not yet begun, or left in the process that this one was forked from
        std::thread([this] { run(); }).detach();
        process_ = ::getpid();
      }
      waiting_.push_back({data, size});
      changed_.notify_all();
    } catch (const std::exception&) {
      unmapNow(data, size);  // no thread or no memory to be had
    }
  }

  void await() {
    std::unique_lock lock(mutex_);
    if (process_ == ::getpid()) changed_.wait(lock, [this] { return waiting_.empty(); });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      const auto [data, size] = waiting_.front();
      lock.unlock();
      unmapNow(data, size);
      lock.lock();
      waiting_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<uint8_t*, size_t>> waiting_;  // the first is in hand
  pid_t process_ = -1;
};

}  // namespace

void unmapLater(uint8_t* data, size_t size) {
  if (size < kUnmapLaterBytes) return unmapNow(data, size);
  Unmapper::one().give(data, size);
}

void awaitUnmapped() { Unmapper::one().await(); }

}  // namespace muster
