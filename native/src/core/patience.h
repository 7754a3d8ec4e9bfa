// How long a wait may last and who may cut it short. Every blocking call of the core takes a Patience.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>

#include "core/limits.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace muster {

// CLOCK_MONOTONIC, which futexes and poll use too, and what a test has turned it by.
class Clock {
 public:
  using Kernel = std::chrono::steady_clock;
  using duration = Kernel::duration;
  using rep = Kernel::rep;
  using period = Kernel::period;
  using time_point = Kernel::time_point;
  static constexpr bool is_steady = true;

  static time_point now() noexcept { return Kernel::now() + turnedBy(); }
  static duration turnedBy() noexcept { return duration(turned_.load(std::memory_order_acquire)); }

  // For tests. Waits that begin from now on look at the clock every few milliseconds, so that they notice when it is turned.
  static void makeTurnable() { turnable_ = true; }
  static void turn(Milliseconds by) { turned_ += std::chrono::duration_cast<duration>(by).count(); }
  // Of a poll that would last for `ms`.
  static int slice(int ms) noexcept { return turnable_.load(std::memory_order_relaxed) ? std::min(ms, 2) : ms; }

 private:
  static inline std::atomic<rep> turned_{0};
  static inline std::atomic<bool> turnable_{false};
};

class Deadline {
 public:
  static Deadline in(Milliseconds delay) { return Deadline(Clock::now() + delay); }

  bool passed() const { return Clock::now() >= at_; }
  Deadline earlier(Deadline other) const { return at_ < other.at_ ? *this : other; }
  // Whole milliseconds left, rounded up, so that a poll never spins on a rest below one.
  int remainingMs() const {
    const auto left = std::chrono::ceil<Milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max()));
  }
  // As the kernel counts.
  timespec absolute() const {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>((at_ - Clock::turnedBy()).time_since_epoch()).count();
    return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

// A flag that any thread may raise, once and for ever. A raised flag also makes fd() readable, so poll sees it.
class Abort {
 public:
  Abort();
  Abort(const Abort&) = delete;
  Abort& operator=(const Abort&) = delete;

  void request();
  bool requested() const { return requested_.load(std::memory_order_acquire); }
  int fd() const { return event_.get(); }

 private:
  std::atomic<bool> requested_{false};
  UniqueFd event_;
};

struct Patience {
  Deadline deadline;
  const Abort* abort;
  // Longest time without one byte from the other side; nothing to do with the whole duration.
  Milliseconds silence = Milliseconds::max();

  // The same patience, ending in `delay` at the latest.
  Patience within(Milliseconds delay) const { return {deadline.earlier(Deadline::in(delay)), abort, silence}; }
  // Ok while waiting may go on.
  Status check() const;
};

// Waits until `fd` is ready for `events` (POLLIN, POLLOUT). Hang-ups count as ready: the next read or write tells.
Status awaitReady(int fd, short events, const Patience& patience);

// Sleeps, unless aborted or out of time.
Status pause(Milliseconds delay, const Patience& patience);

}  // namespace muster
