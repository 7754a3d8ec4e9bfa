// Waiting for the other members of a mesh: until they did something, died, or time is over.
#pragma once

#include <functional>
#include <optional>

#include "core/mesh_segment.h"
#include "core/patience.h"
#include "core/short_wait.h"
#include "core/usage.h"

namespace muster {

class MeshWatch {
 public:
  // `local` are the ranks of this host; none for all.
  MeshWatch(const MeshSegment& segment, uint32_t rank, const std::vector<uint32_t>& local = {});

  // Waits until `arrived(member)` holds for every member. Code::PeerLost with the dead among those missing (or those
  // that left, when none died), Code::Timeout with those missing. Deaths are noticed within a slice of 5 ms.
  // `extraAbort` is a second flag that ends the wait. Where every member has a core it looks for a moment before it sleeps.
  // One wait at a time.
  Status await(const std::function<bool(const MemberRecord&)>& arrived, const Patience& patience,
               const Abort& extraAbort);

  // `sockets[r]` is the connection to rank r, where there is one.
  void setSockets(std::vector<UniqueFd> sockets);
  void closeSockets();

  // The rank through which other hosts are heard: once it is gone nothing more arrives, whatever it has announced itself.
  void setRelay(uint32_t rank) { relay_ = rank; }

  // Notes which members of this host have died. Any thread may call it.
  void markDeaths();

 private:
  bool complete(const std::function<bool(const MemberRecord&)>& arrived) const;
  std::vector<uint32_t> missing(const std::function<bool(const MemberRecord&)>& arrived) const;
  std::vector<uint32_t> lost(const std::function<bool(const MemberRecord&)>& arrived) const;

  const MeshSegment& segment_;
  const uint32_t rank_;
  std::vector<bool> local_;  // by rank
  ShortWait shortWait_;
  std::optional<uint32_t> relay_;
  std::vector<UniqueFd> sockets_;
  ConnectionCount count_;
};

// "rank 2", "ranks 2, 3".
std::string namesOf(const std::vector<uint32_t>& ranks);

}  // namespace muster
