#include "core/crew.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <vector>

#include "core/limits.h"

namespace muster {

namespace {

// This thread alone: Linux has a niceness for each. Nobody is refused more of it, and without it the work is done all the same.
void giveWay() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kCrewNiceness); }

}  // namespace

void onCrew(size_t threads, const std::function<void()>& body) {
  std::vector<std::thread> crew;
  try {
    for (size_t i = 0; i < threads; i++)
      crew.emplace_back([&body] {
        giveWay();
        body();
      });
  } catch (const std::system_error&) {
    // No thread to be had: those that there are do it all.
  }
  if (crew.empty()) body();
  for (std::thread& each : crew) each.join();
}

}  // namespace muster
