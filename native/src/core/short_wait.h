// Looking at a condition again and again for a moment, before the thread goes to sleep: to be woken takes longer than what
// is waited for when everybody has a core. Whoever looked in vain sits out the next waits, more of them each time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

#include "core/limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster {

class ShortWait {
 public:
  // Not worthwhile where those who are waited for may need the core of the one who waits.
  explicit ShortWait(bool worthwhile) : worthwhile_(worthwhile) {}

  // True as soon as `holds()` is true; false when that takes longer than it is worth.
  template <class Condition>
  bool until(const Condition& holds) {
    if (!worthwhile_ || sitOut_ > 0) {
      sitOut_ -= std::min<size_t>(sitOut_, 1);
      return false;
    }
    const auto end = std::chrono::steady_clock::now() + kMoment;
    do {
      for (int i = 0; i < kPausesPerLook; i++) relax();
      if (holds()) {
        penalty_ = 0;
        return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    penalty_ = std::clamp<size_t>(penalty_ * 2, 1, kPenaltyMax);
    sitOut_ = penalty_;
    return false;
  }

 private:
  static constexpr int kPausesPerLook = 16;

  static void relax() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
  }

  const bool worthwhile_;
  size_t penalty_ = 0;  // waits that the last vain one cost
  size_t sitOut_ = 0;   // of them, those still to come
};

}  // namespace muster
