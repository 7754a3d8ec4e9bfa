// Where the leaders of other hosts come in: the TCP port of a version store hands those who ask for a mesh, after they have
// proved the job's key, to the mesh that waits for them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "core/handshake.h"

namespace muster {

class MeshListener {
 public:
  struct Caller {
    Hello hello;
    Connection connection;
  };

  // From now on callers of this epoch are let in, until close().
  void open(uint64_t epoch);
  void close(uint64_t epoch);

  // Takes the connection when a mesh of this epoch waits here, in the place of an earlier call of the same member; otherwise
  // Code::Unreachable, and the caller tries again.
  Status offer(uint64_t epoch, Hello hello, Connection& connection);

  // The next caller of the epoch that has not hung up.
  Result<Caller> take(uint64_t epoch, const Patience& patience);

  // Calls that were let in so far.
  uint64_t calls() const { return calls_; }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::atomic<uint64_t> calls_{0};
  std::map<uint64_t, std::vector<Caller>> waiting_;  // an entry for each open epoch
};

}  // namespace muster
