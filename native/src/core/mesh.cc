#include "core/mesh.h"

#include <algorithm>
#include <utility>

#include "core/version_store.h"
#include "cpu/ordered_sum.h"

namespace muster {

namespace {

constexpr size_t kSumStep = size_t{1} << 18;  // elements between two looks at the abort flag

}  // namespace

Result<std::shared_ptr<Mesh>> Mesh::open(const MeshOptions& options, const Patience& patience) {
  if (Status valid = checkOptions(options); !valid.ok()) return valid;
  const bool leads = options.leaderOf(options.rank) == options.rank;
  Result<std::shared_ptr<Mesh>> mesh = leads ? lead(options, patience) : follow(options, patience);
  if (!mesh.ok()) return mesh;
  if (Status complete = mesh.value()->awaitPhase(patience); !complete.ok()) return complete;
  return mesh;
}

Result<std::shared_ptr<Mesh>> Mesh::lead(const MeshOptions& options, const Patience& patience) {
  struct Doorkeeper {
    const MeshOptions& options;
    explicit Doorkeeper(const MeshOptions& of) : options(of) {
      if (options.store) options.store->door().open(options.epoch);
    }
    ~Doorkeeper() {
      if (options.store) options.store->door().close(options.epoch);
    }
  };
  const Doorkeeper doorkeeper(options);  // leaders of other hosts may come at any time from now on
  Result<MeshSegment> segment = MeshSegment::create(options.shape());
  if (!segment.ok()) return segment.status();
  std::shared_ptr<Mesh> mesh(new Mesh(std::move(segment.value()), options.rank));
  if (Status entered = mesh->enter(); !entered.ok()) return entered;
  Result<std::vector<UniqueFd>> sockets = gatherMembers(options, mesh->segment_, patience);
  if (!sockets.ok()) return sockets.status();
  mesh->watch_.setSockets(std::move(sockets.value()));
  mesh->segment_.closeFd();
  if (options.places.empty()) return mesh;
  Result<std::vector<OtherHost>> others = meetLeaders(options, patience);
  if (!others.ok()) return others.status();
  mesh->bridge_ = std::make_unique<MeshBridge>(mesh->segment_, mesh->watch_, options.neighboursOf(options.rank));
  for (OtherHost& other : others.value())
    mesh->bridge_->add(other.leader, options.neighboursOf(other.leader), std::move(other.connection));
  return mesh;
}

Result<std::shared_ptr<Mesh>> Mesh::follow(const MeshOptions& options, const Patience& patience) {
  Result<JoinedSegment> joined = joinSegment(options, patience);
  if (!joined.ok()) return joined.status();
  std::shared_ptr<Mesh> mesh(new Mesh(std::move(joined.value().segment), options.rank));
  std::vector<UniqueFd> sockets(options.leaderOf(options.rank) + 1);
  sockets.back() = std::move(joined.value().host);
  mesh->watch_.setSockets(std::move(sockets));
  if (!options.places.empty()) mesh->watch_.setRelay(options.leaderOf(options.rank));
  if (Status entered = mesh->enter(); !entered.ok()) return entered;
  return mesh;
}

Status Mesh::enter() {
  if (Status held = lifeLine_.hold(); !held.ok()) return held;
  self().state.store(static_cast<uint32_t>(MemberState::Joined), std::memory_order_release);
  announcePhase();
  return {};
}

Status Mesh::reduce(const ReduceOptions& options, const Patience& patience) {
  const std::unique_lock running(running_, std::try_to_lock);
  if (!running.owns_lock()) return {Code::InvalidArgument, "a reduce is in progress on this mesh", {}};
  if (!spent_.ok()) return {Code::Closed, "the mesh is spent: " + spent_.message, spent_.ranks};
  // Who has left must not arrive at a barrier: the others count on its absence.
  const bool stopped = patience.abort->requested() || aborted_.requested();
  Status done = stopped ? Status{Code::Aborted, "aborted by the caller", {}} : run(options, patience);
  if (done.code == Code::Aborted) {
    const std::lock_guard lock(reasonGuard_);
    if (!reason_.empty()) done.message = reason_;
  }
  if (done.ok()) return done;
  spent_ = done;
  leave();
  return done;
}

Status Mesh::run(const ReduceOptions& options, const Patience& patience) {
  if (Status claimed = claim(options); !claimed.ok()) return claimed;
  announcePhase();
  if (Status all = awaitPhase(patience); !all.ok()) return all;
  if (Status agreed = checkAgreement(options.op); !agreed.ok()) return agreed;
  if (Status summed = sumSlice(patience); !summed.ok()) return summed;
  announcePhase();
  return awaitPhase(patience);
}

Status Mesh::claim(const ReduceOptions& options) {
  const std::span<uint8_t> claims = segment_.claims(rank_);
  for (uint8_t& each : claims) each = 0;
  for (const uint32_t index : options.written) {
    if (index >= claims.size())
      return {Code::InvalidArgument, "shard " + std::to_string(index) + " does not exist", {}};
    claims[index] = 1;
  }
  self().op.store(options.op, std::memory_order_relaxed);  // published by the phase
  return {};
}

// A phase once announced stays true, so a rank that leaves later cannot undo a barrier that others are about to see.
void Mesh::announcePhase() {
  self().phase.store(++phase_, std::memory_order_release);
  segment_.ring();
}

Status Mesh::awaitPhase(const Patience& patience) {
  const auto arrived = [this](const MemberRecord& m) { return m.phase.load(std::memory_order_acquire) >= phase_; };
  return watch_.await(arrived, patience, aborted_);
}

// All ranks look at the same words between the same barriers, so all come to the same verdict.
Status Mesh::checkAgreement(uint64_t op) const {
  const MeshShape& shape = segment_.shape();
  for (uint32_t rank = 0; rank < shape.worldSize; rank++) {
    const uint64_t theirs = segment_.member(rank).op.load(std::memory_order_relaxed);
    if (theirs != op)
      return {Code::Disagreement,
              namesOf({rank}) + " reduces op " + std::to_string(theirs) + ", this rank op " + std::to_string(op),
              {rank}};
  }
  for (uint32_t shard = 0; shard < shape.shards; shard++) {
    std::vector<uint32_t> writers;
    for (uint32_t rank = 0; rank < shape.worldSize; rank++)
      if (segment_.claims(rank)[shard] != 0) writers.push_back(rank);
    if (writers.size() == 1) continue;
    const std::string who = writers.empty() ? "nobody" : namesOf(writers);
    return {Code::Disagreement, "shard " + std::to_string(shard) + " was written by " + who, writers};
  }
  return {};
}

Status Mesh::sumSlice(const Patience& patience) {
  const MeshShape& shape = segment_.shape();
  std::vector<const float*> shards;
  for (uint32_t index = 0; index < shape.shards; index++) shards.push_back(segment_.shard(index));
  const Range slice = sliceOf(shape.shardElements, rank_, shape.worldSize);
  for (size_t begin = slice.begin; begin < slice.end; begin += kSumStep) {
    if (patience.abort->requested() || aborted_.requested()) return {Code::Aborted, "aborted by the caller", {}};
    orderedSum(shards, segment_.result(), {begin, std::min(begin + kSumStep, slice.end)});
  }
  return {};
}

void Mesh::leave() {
  self().state.store(static_cast<uint32_t>(MemberState::Left), std::memory_order_release);
  segment_.ring();
}

void Mesh::abort(const std::string& reason) {
  {
    const std::lock_guard lock(reasonGuard_);
    if (reason_.empty()) reason_ = reason;
  }
  aborted_.request();
  leave();
}

void Mesh::close() {
  abort("the mesh was closed");
  const std::lock_guard idle(running_);  // a reduce in progress ends within a slice
  if (std::exchange(closed_, true)) return;
  if (spent_.ok()) spent_ = {Code::Closed, "it was closed", {}};
  bridge_.reset();  // after what this host's ranks announced is sent
  lifeLine_.release();
  watch_.closeSockets();
}

}  // namespace muster
