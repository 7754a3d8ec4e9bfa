// What the fuzz targets share. A property that does not hold ends the run like a crash.
#pragma once

#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

#include "core/connection.h"

#define HOLDS(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                   \
    }                                                                                 \
  } while (false)

namespace muster::fuzz {

// The ends of a connection; what is written into the first arrives at the second.
inline std::pair<UniqueFd, UniqueFd> connectedPair() {
  int pair[2] = {-1, -1};
  HOLDS(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  return {UniqueFd(pair[0]), UniqueFd(pair[1])};
}

// Writes what fits, and says no more.
inline void sayAndEnd(const UniqueFd& end, ByteView bytes) {
  if (!bytes.empty()) [[maybe_unused]] const ssize_t sent = ::send(end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(end.get(), SHUT_WR);
}

}  // namespace muster::fuzz
