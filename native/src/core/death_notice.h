// Noticing the death of a process on this host, whatever its memory: at the next look, of which MeshWatch has one each 5 ms.
//
// Each member keeps a robust mutex in shared memory locked for life. When it dies, the kernel releases robust mutexes
// before it tears the memory down; sockets and pidfds close only afterwards, 60 ms per GiB later.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/patience.h"

namespace muster {

// Prepares a mutex in fresh shared memory.
Status initLifeMutex(pthread_mutex_t& mutex);

// True when the process that held the mutex died holding it. Never blocks.
bool holderDied(pthread_mutex_t& mutex);

// Holds a life mutex. The robust list belongs to a thread, so the holder is a thread of its own that does nothing else.
class LifeLine {
 public:
  explicit LifeLine(pthread_mutex_t& mutex) : mutex_(mutex) {}
  ~LifeLine() { release(); }
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;

  // Takes the mutex. Code::Disagreement when somebody else holds it.
  Status hold();
  // Lets go in an orderly way; others do not take it for a death. Harmless twice.
  void release();

 private:
  enum class Phase { Starting, Held, Failed, Releasing };
  void run();

  pthread_mutex_t& mutex_;
  std::mutex guard_;
  std::condition_variable changed_;
  Phase phase_ = Phase::Starting;
  std::thread thread_;
};

}  // namespace muster
