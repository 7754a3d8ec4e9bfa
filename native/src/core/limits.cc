#include "core/limits.h"

#include <atomic>
#include <list>
#include <mutex>

namespace muster {

namespace {

std::atomic<const NetworkTimes*>& current() {
  static const NetworkTimes defaults;
  static std::atomic<const NetworkTimes*> times{&defaults};
  return times;
}

struct Term {
  const char* name;
  Milliseconds value;
};

std::string text(const Term& term) { return std::string(term.name) + " = " + std::to_string(term.value.count()) + " ms"; }

// Ok when `factor` times the first is at most the second.
Status atMost(int factor, const Term& first, const Term& second, const char* why) {
  if (first.value > Milliseconds(0) && factor * first.value <= second.value) return {};
  const std::string times = factor == 1 ? "" : std::to_string(factor) + " times ";
  return {Code::InvalidArgument, times + text(first) + " must be at most " + text(second) + ": " + why, {}};
}

}  // namespace

Status NetworkTimes::check() const {
  const Term beat{"alive", alive}, word{"answer", answer}, call{"connect", connect}, fed{"starved", starved}, taken{"stall", stall};
  const Term host{"host_silence", hostSilence}, mesh{"mesh_call", meshCall}, greeting{"handshake", handshake};
  const Status all[] = {
      atMost(4, beat, word, "three words may be late"),
      atMost(4, beat, host, "three words may be late"),
      atMost(1, word, call, "who is called has to answer as well"),
      atMost(1, word, fed, "a holder that says nothing is left before one that says that it lives"),
      atMost(1, word, greeting, "a greeting is answered"),
      atMost(1, fed, taken, "a reader waits for a starving holder, and is not dropped meanwhile"),
      atMost(1, host, mesh, "a call waits for a host that is busy"),
  };
  for (const Status& each : all)
    if (!each.ok()) return each;
  return {};
}

const NetworkTimes& network() { return *current().load(std::memory_order_acquire); }

Status setNetwork(const NetworkTimes& times) {
  if (Status fits = times.check(); !fits.ok()) return fits;
  // Kept for ever, because somebody may be reading them; a process is told them once or twice.
  static std::mutex mutex;
  static auto* all = new std::list<NetworkTimes>;
  const std::lock_guard lock(mutex);
  current().store(&all->emplace_back(times), std::memory_order_release);
  return {};
}

}  // namespace muster
