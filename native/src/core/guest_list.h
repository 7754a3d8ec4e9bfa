// The callers of a server, each served on a thread of its own. Who has not proved the key yet is half open. Of those each kind of
// listener has so many at a time, and when one more comes, the oldest of the address with the most goes. So whoever only opens
// connections keeps nobody out who knows the key, neither there nor at the other listener.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "core/connection.h"
#include "core/socket.h"

namespace muster {

class Guest {
 public:
  Guest(Address::Kind kind, std::string from) : kind_(kind), from_(std::move(from)) {}

  Address::Kind kind() const { return kind_; }
  // Raised when the guest has to go.
  const Abort& leaving() const { return leaving_; }
  // From now on it is not half open any more. False when it was evicted before.
  bool proved();

 private:
  friend class GuestList;
  enum class Stage : uint8_t { HalfOpen, Proved, Evicted };

  const Address::Kind kind_;
  const std::string from_;  // numeric host; empty on a Unix socket
  std::atomic<Stage> stage_{Stage::HalfOpen};
  std::atomic<bool> done_{false};
  Abort leaving_;
  std::thread thread_;
};

// For one thread alone; what guests call themselves is said at Guest.
class GuestList {
 public:
  using Serve = std::function<void(Guest&, Connection)>;

  // `serve` runs once for each guest, on its thread, and must return soon once the guest has to leave.
  explicit GuestList(Serve serve) : serve_(std::move(serve)) {}
  ~GuestList() { end(); }
  GuestList(const GuestList&) = delete;
  GuestList& operator=(const GuestList&) = delete;

  // Serves the caller, after one half-open guest was evicted when there are too many. Without a thread for it the connection closes.
  void take(UniqueFd socket, Address::Kind kind);
  // Forgets those that are done.
  void reap();
  // Puts all out.
  void end();


 private:
  void makeRoom(Address::Kind kind, const std::string& from);

  const Serve serve_;
  std::list<Guest> guests_;  // the oldest first
};

}  // namespace muster
