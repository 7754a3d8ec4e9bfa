// How many cores this process may use.
#pragma once

#include <sched.h>

#include <cstddef>

namespace muster {

inline size_t usableCores() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<size_t>(CPU_COUNT(&allowed)) : 1;
}

}  // namespace muster
