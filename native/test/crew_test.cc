// Threads that share out something large: what they take from the others.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "check.h"
#include "core/crew.h"
#include "core/limits.h"

using namespace muster;

namespace {

int nicenessOf(pid_t thread) { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(thread)); }

pid_t self() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

}  // namespace

TEST("a crew is as many threads as wanted, each of which gives way, and the caller goes on as it was") {
  const int before = nicenessOf(self());
  std::mutex mutex;
  std::set<pid_t> crew;
  std::set<int> niceness;
  std::atomic<size_t> there{0};
  onCrew(3, [&] {
    for (there++; there < 3;) std::this_thread::yield();  // all at once
    const std::lock_guard lock(mutex);
    crew.insert(self());
    niceness.insert(nicenessOf(self()));
  });
  CHECK(crew.size() == 3);
  CHECK(!crew.contains(self()));
  CHECK(niceness == std::set<int>{std::max(before, kCrewNiceness)});
  CHECK(nicenessOf(self()) == before);
}

TEST("a crew of nobody is the caller itself") {
  pid_t worked = 0;
  onCrew(0, [&] { worked = self(); });
  CHECK(worked == self());
}
