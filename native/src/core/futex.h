// Futex waits between processes. std::atomic::wait uses private futexes in libstdc++ and so cannot be used here.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "core/patience.h"

namespace muster {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

// Sleeps while `word` holds `seen`, at most until `until`. May return early; callers loop over their own condition.
inline void futexWait(std::atomic<uint32_t>& word, uint32_t seen, Deadline until) {
  const timespec at = until.absolute();
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_BITSET, seen, &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futexWakeAll(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace muster
