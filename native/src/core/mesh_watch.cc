#include "core/mesh_watch.h"

#include <algorithm>

#include "core/cores.h"
#include "core/death_notice.h"
#include "core/futex.h"
#include "core/socket.h"

namespace muster {

namespace {

MemberState stateOf(const MemberRecord& member) {
  return static_cast<MemberState>(member.state.load(std::memory_order_acquire));
}

}  // namespace

std::string namesOf(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); i++) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

MeshWatch::MeshWatch(const MeshSegment& segment, uint32_t rank, const std::vector<uint32_t>& local)
    : segment_(segment),
      rank_(rank),
      local_(segment.shape().worldSize, local.empty()),
      shortWait_(segment.shape().worldSize <= usableCores()) {
  for (const uint32_t each : local) local_[each] = true;
}

bool MeshWatch::complete(const std::function<bool(const MemberRecord&)>& arrived) const {
  for (uint32_t rank = 0; rank < segment_.shape().worldSize; rank++)
    if (!arrived(segment_.member(rank))) return false;
  return true;
}

void MeshWatch::setSockets(std::vector<UniqueFd> sockets) {
  sockets_ = std::move(sockets);
  count_ = ConnectionCount(static_cast<uint64_t>(std::ranges::count_if(sockets_, [](const UniqueFd& each) { return bool(each); })));
}

void MeshWatch::closeSockets() {
  sockets_.clear();
  count_ = {};
}

std::vector<uint32_t> MeshWatch::missing(const std::function<bool(const MemberRecord&)>& arrived) const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < segment_.shape().worldSize; rank++)
    if (!arrived(segment_.member(rank))) ranks.push_back(rank);
  return ranks;
}

// Looks at a member's state before it looks at its arrival: who arrived and left since has arrived.
std::vector<uint32_t> MeshWatch::lost(const std::function<bool(const MemberRecord&)>& arrived) const {
  std::vector<uint32_t> dead, left;
  for (uint32_t rank = 0; rank < segment_.shape().worldSize; rank++) {
    const MemberRecord& member = segment_.member(rank);
    const MemberState state = stateOf(member);
    if (state == MemberState::Dead && !arrived(member)) dead.push_back(rank);
    if (state == MemberState::Left && !arrived(member)) left.push_back(rank);
  }
  if (!dead.empty()) return dead;
  // Those who are missing may live, but nothing that they say arrives any more.
  const bool cutOff = left.empty() && relay_ && stateOf(segment_.member(*relay_)) >= MemberState::Left;
  return cutOff ? std::vector<uint32_t>{*relay_} : left;
}

void MeshWatch::markDeaths() {
  for (uint32_t rank = 0; rank < segment_.shape().worldSize; rank++) {
    if (rank == rank_) continue;
    const bool here = local_[rank];
    MemberRecord& member = segment_.member(rank);
    auto state = static_cast<uint32_t>(stateOf(member));
    if (state != static_cast<uint32_t>(MemberState::Joined) && state != static_cast<uint32_t>(MemberState::Absent))
      continue;
    const bool joined = state == static_cast<uint32_t>(MemberState::Joined);
    const bool hungUp = rank < sockets_.size() && sockets_[rank] && hasHungUp(sockets_[rank].get());
    // Nobody holds the mutex of a rank of another host; a process of this one that ended while it looked left it like that of a dead rank.
    if (!hungUp && !(joined && here && holderDied(member.life))) continue;
    // Who leaves in order says so before it lets go; then the exchange fails and it stays "left".
    if (member.state.compare_exchange_strong(state, static_cast<uint32_t>(MemberState::Dead))) segment_.ring();
  }
}

Status MeshWatch::await(const std::function<bool(const MemberRecord&)>& arrived, const Patience& patience,
                        const Abort& extraAbort) {
  if (shortWait_.until([&] { return complete(arrived); })) return {};
  for (;;) {
    const uint32_t bell = segment_.bell().load(std::memory_order_acquire);
    const std::vector<uint32_t> waitedFor = missing(arrived);
    if (waitedFor.empty()) return {};
    if (patience.abort->requested() || extraAbort.requested()) return {Code::Aborted, "aborted by the caller", {}};
    markDeaths();
    const std::vector<uint32_t> gone = lost(arrived);
    if (!gone.empty()) return {Code::PeerLost, namesOf(gone) + " left the mesh or died", gone};
    if (patience.deadline.passed())
      return {Code::Timeout, namesOf(waitedFor) + " did not arrive in time", waitedFor};
    futexWait(segment_.bell(), bell, patience.deadline.earlier(Deadline::in(kDeathLook)));
  }
}

}  // namespace muster
