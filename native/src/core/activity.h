// What the data plane of this process has done: counters and bytes by peer for metrics, and the last events of each kind for a log. Nobody who
// notes something waits for who reads it.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/limits.h"

namespace muster {

enum class Event : uint8_t {
  Retry,      // holders that broke off, or the leader of a host, are asked once more
  FailOver,   // a holder failed, and the next is asked
  Stall,      // an end said or took nothing for too long
  Refused,    // a caller that does not belong here
  Evicted,     // a caller that had proved nothing gave way to another
  HostLost,   // a host of a mesh is not heard any more
  DeltaLost,  // a delta did not fit; the bytes came whole
};
inline constexpr size_t kEventKinds = 7;

// As metrics and logs call it.
std::string_view nameOf(Event event);

struct Happened {
  uint64_t number;  // in the order in which they happened
  Event event;
  std::string peer;
  std::string text;
};

struct PeerBytes {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

class Activity {
 public:
  // Counts it, and remembers it until it is taken, unless kEventsMax of its kind came after it. Throws nothing.
  void note(Event event, std::string_view peer, std::string_view text);
  uint64_t count(Event event) const { return counts_[static_cast<size_t>(event)].load(std::memory_order_relaxed); }

  std::atomic<uint64_t> opened{0};    // connections to others
  std::atomic<uint64_t> accepted{0};  // connections of others

  // Of the other end of this socket: a numeric host, "local", or "others" when there are too many. It stays for ever.
  PeerBytes& peerOf(int socket);
  // {name, sent, received}
  struct PeerCount {
    std::string name;
    uint64_t sent;
    uint64_t received;
  };
  std::vector<PeerCount> peers() const;

  // The events since the last call, the oldest first, and how many were forgotten in between.
  struct Taken {
    std::vector<Happened> events;
    uint64_t forgotten = 0;
  };
  Taken take();

  // `hear` is called with each event, under a lock: it must do little and note nothing. One hears at a time, the last who asked.
  void hear(const void* who, std::function<void()> hear);
  // Not called any more when this returns. Nothing when somebody else hears by now.
  void deafen(const void* who);

 private:
  std::array<std::atomic<uint64_t>, kEventKinds> counts_{};
  mutable std::mutex mutex_;
  uint64_t next_ = 0;
  std::array<std::deque<Happened>, kEventKinds> events_;
  uint64_t forgotten_ = 0;
  const void* hearer_ = nullptr;
  std::function<void()> hear_;
  mutable std::mutex peersMutex_;
  std::map<std::string, PeerBytes> peers_;
};

// Of this process. It is never destroyed: threads that were left behind may still note something.
Activity& activity();

}  // namespace muster
