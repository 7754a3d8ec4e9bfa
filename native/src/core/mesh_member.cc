#include "core/mesh_member.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/cores.h"
#include "core/prefault.h"
#include "core/version_store.h"

namespace muster {

MeshMember::Opened MeshMember::open(const MeshOptions& options, const CargoMaker& cargo, const Patience& patience) {
  if (Status valid = checkOptions(options); !valid.ok()) return valid;
  const bool leads = options.leaderOf(options.rank) == options.rank;
  Opened member = leads ? lead(options, cargo, patience) : follow(options, patience);
  if (!member.ok()) return member;
  if (Status complete = member.value()->awaitPhase(patience); !complete.ok()) return complete;
  if (member.value()->warming_.joinable()) member.value()->warming_.join();
  return member;
}

MeshMember::Opened MeshMember::lead(const MeshOptions& options, const CargoMaker& cargo, const Patience& patience) {
  struct OpenListener {
    const MeshOptions& options;
    explicit OpenListener(const MeshOptions& of) : options(of) {
      if (options.store) options.store->listener().open(options.meeting());
    }
    ~OpenListener() {
      if (options.store) options.store->listener().close(options.meeting());
    }
  };
  const OpenListener listener(options);  // leaders of other hosts may come at any time from now on
  Result<MeshSegment> segment = MeshSegment::create(options.shape());
  if (!segment.ok()) return segment.status();
  std::unique_ptr<MeshMember> member(new MeshMember(std::move(segment.value()), options));
  member->warm(options, patience);
  if (Status entered = member->enter(); !entered.ok()) return entered;
  Result<std::vector<UniqueFd>> sockets = gatherMembers(options, member->segment_, patience);
  if (!sockets.ok()) return sockets.status();
  member->watch_.setSockets(std::move(sockets.value()));
  member->segment_.closeFd();
  if (options.places.empty()) return member;
  Result<std::vector<OtherHost>> others = meetLeaders(options, patience);
  if (!others.ok()) return others.status();
  member->cargo_ = cargo(member->segment_);
  member->bridge_ = std::make_unique<MeshBridge>(member->segment_, member->watch_, *member->cargo_,
                                                 options.neighboursOf(options.rank));
  for (OtherHost& other : others.value())
    member->bridge_->add({other.leader, options.neighboursOf(other.leader)}, std::move(other.connection));
  return member;
}

MeshMember::Opened MeshMember::follow(const MeshOptions& options, const Patience& patience) {
  Result<JoinedSegment> joined = joinSegment(options, patience);
  if (!joined.ok()) return joined.status();
  std::unique_ptr<MeshMember> member(new MeshMember(std::move(joined.value().segment), options));
  member->warm(options, patience);
  std::vector<UniqueFd> sockets(options.leaderOf(options.rank) + 1);
  sockets.back() = std::move(joined.value().host);
  member->watch_.setSockets(std::move(sockets));
  if (!options.places.empty()) member->watch_.setRelay(options.leaderOf(options.rank));
  if (Status entered = member->enter(); !entered.ok()) return entered;
  return member;
}

// The others are met meanwhile: neither they nor an abort wait for all of the memory. What is not there at the deadline comes when it is used.
void MeshMember::warm(const MeshOptions& options, const Patience& patience) {
  std::vector<std::span<uint8_t>> parts;
  for (const ShardPart& each : options.residents()) parts.push_back(segment_.bytesOf(each));
  const size_t threads = std::max<size_t>(usableCores() / options.neighboursOf(rank_).size(), 1);
  try {
    warming_ = std::jthread([parts, threads, patience](const std::stop_token& stop) {
      prefault(parts, threads, [&] { return !stop.stop_requested() && patience.check().ok(); });
    });
  } catch (const std::system_error&) {
    prefault(parts, 1, [&] { return patience.check().ok(); });  // no thread to be had
  }
}

Status MeshMember::enter() {
  if (Status held = lifeLine_.hold(); !held.ok()) return held;
  self().state.store(static_cast<uint32_t>(MemberState::Joined), std::memory_order_release);
  announcePhase();
  return {};
}

Status MeshMember::perform(const std::function<Status()>& operation, const Patience& patience) {
  const std::unique_lock running(running_, std::try_to_lock);
  if (!running.owns_lock()) return {Code::InvalidArgument, "an operation is in progress here", {}};
  if (!spent_.ok()) return {Code::Closed, "the mesh is spent: " + spent_.message, spent_.ranks};
  // Who has left must not arrive at a barrier: the others count on its absence.
  const bool stopped = patience.abort->requested() || aborted_.requested();
  Status done = stopped ? Status{Code::Aborted, "aborted by the caller", {}} : operation();
  if (done.code == Code::Aborted) {
    const std::lock_guard lock(reasonGuard_);
    if (!reason_.empty()) done.message = reason_;
  }
  if (done.ok()) return done;
  spent_ = done;
  leave();
  return done;
}

// A phase once announced stays true, so a rank that leaves later cannot undo a barrier that others are about to see.
void MeshMember::announcePhase() {
  self().phase.store(++phase_, std::memory_order_release);
  segment_.ring();
}

Status MeshMember::awaitPhase(const Patience& patience) {
  return await([this](const MemberRecord& m) { return m.phase.load(std::memory_order_acquire) >= phase_; }, patience);
}

Status MeshMember::await(const std::function<bool(const MemberRecord&)>& arrived, const Patience& patience) {
  return watch_.await(arrived, patience, aborted_);
}

Status MeshMember::mayGoOn(const Patience& patience) const {
  if (patience.abort->requested() || aborted_.requested()) return {Code::Aborted, "aborted by the caller", {}};
  return {};
}

void MeshMember::leave() {
  self().state.store(static_cast<uint32_t>(MemberState::Left), std::memory_order_release);
  segment_.ring();
}

void MeshMember::abort(const std::string& reason) {
  {
    const std::lock_guard lock(reasonGuard_);
    if (reason_.empty()) reason_ = reason;
  }
  aborted_.request();
  leave();
}

void MeshMember::close() {
  abort("the mesh was closed");
  const std::lock_guard idle(running_);  // an operation in progress ends within a slice
  if (std::exchange(closed_, true)) return;
  if (spent_.ok()) spent_ = {Code::Closed, "it was closed", {}};
  bridge_.reset();  // after what this host's ranks announced is sent
  lifeLine_.release();
  watch_.closeSockets();
}

}  // namespace muster
