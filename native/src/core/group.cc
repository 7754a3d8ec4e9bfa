#include "core/group.h"

#include <algorithm>

#include "cpu/stream_copy.h"

namespace muster {

namespace {

using Kind = Operation::Kind;


std::vector<MeshHost> hostsOf(const MeshOptions& options) {
  std::vector<MeshHost> hosts;
  for (uint32_t rank = 0; rank < options.members.size(); rank++)
    if (options.leaderOf(rank) == rank) hosts.push_back({rank, options.neighboursOf(rank)});
  return hosts;
}

size_t hostOf(const std::vector<MeshHost>& hosts, uint32_t rank) {
  const auto has = [rank](const MeshHost& host) { return std::ranges::find(host.ranks, rank) != host.ranks.end(); };
  return static_cast<size_t>(std::ranges::find_if(hosts, has) - hosts.begin());
}

}  // namespace

Result<std::shared_ptr<Group>> Group::open(MeshOptions options, uint64_t capacityBytes, const Patience& patience) {
  if (options.group.empty()) return Status{Code::InvalidArgument, "a group needs a name", {}};
  options.shards = static_cast<uint32_t>(options.members.size()) + 2;
  options.shardElements = (capacityBytes + sizeof(float) - 1) / sizeof(float);
  if (Status valid = checkOptions(options); !valid.ok()) return valid;
  const std::vector<MeshHost> hosts = hostsOf(options);
  const auto cargo = [&](const MeshSegment& segment) {
    return std::make_unique<GroupRing>(segment, hosts, hostOf(hosts, options.rank));
  };
  Result<std::unique_ptr<MeshMember>> member = MeshMember::open(options, cargo, patience);
  if (!member.ok()) return member.status();
  return std::shared_ptr<Group>(new Group(std::move(member.value()), hosts, capacityBytes));
}

Group::Group(std::unique_ptr<MeshMember> member, std::vector<MeshHost> hosts, uint64_t capacityBytes)
    : member_(std::move(member)), hosts_(std::move(hosts)), capacityBytes_(capacityBytes) {
  self_ = hostOf(hosts_, member_->rank());
  localIndex_ = static_cast<size_t>(std::ranges::find(home().ranks, member_->rank()) - home().ranks.begin());
  ring_ = static_cast<GroupRing*>(member_->cargo());
}

std::span<uint8_t> Group::input() const { return {inputOf(member_->rank()), capacityBytes_}; }

std::span<const uint8_t> Group::result() const {
  return {reinterpret_cast<const uint8_t*>(segment().result()), capacityBytes_};
}

Status Group::run(const Operation& operation, const Patience& patience) {
  if (Status valid = checkOperation(operation, place()); !valid.ok()) return valid;
  const auto body = [&]() -> Status {
    streamCopyAll(operation.gathers);
    const Status done = operation.kind == Kind::Send      ? send(operation, patience)
                        : operation.kind == Kind::Receive ? receive(operation, patience)
                                                          : collective(operation, patience);
    if (done.ok()) streamCopyAll(operation.scatters);  // the result stays as it is until this rank's next operation
    return done;
  };
  return member_->perform(body, patience);
}

// Over several hosts there is one barrier more, between the partial sums of the hosts and their way round the ring.
Status Group::collective(const Operation& operation, const Patience& patience) {
  member_->self().op.store(operation.encoded(), std::memory_order_relaxed);  // published by the phase
  member_->announcePhase();
  if (Status all = member_->awaitPhase(patience); !all.ok()) return all;
  if (Status agreed = checkAgreement(operation, segment()); !agreed.ok()) return agreed;
  if (Status done = contribute(operation, patience); !done.ok()) return done;
  if (hosts_.size() > 1)
    if (Status done = exchange(operation, patience); !done.ok()) return done;
  member_->announcePhase();
  if (Status all = member_->awaitPhase(patience); !all.ok()) return all;
  const uint64_t begin = operation.kind == Kind::ReduceScatter ? sliceOf(operation.count, member_->rank(), worldSize()).begin : 0;
  // The result stays as it is until this rank's next operation.
  streamCopy(operation.into.data(), result().data() + begin * sizeOf(operation.dtype), operation.into.size());
  return {};
}

// What this rank adds to the result, or to the partial sum, of its host.
Status Group::contribute(const Operation& operation, const Patience& patience) {
  if (operation.reduces()) return addUp(operation, patience);
  auto* result = reinterpret_cast<uint8_t*>(segment().result());
  const uint64_t bytes = operation.bytes();
  const auto copy = [&](uint8_t* to, const uint8_t* from, Range range) -> Status {
    for (size_t begin = range.begin; begin < range.end; begin += kAbortStep) {
      if (Status still = member_->mayGoOn(patience); !still.ok()) return still;
      std::memcpy(to + begin, from + begin, std::min(kAbortStep, range.end - begin));
    }
    return {};
  };
  const uint32_t rank = member_->rank();
  if (operation.kind == Kind::AllGather) return copy(result + rank * bytes, inputOf(rank), {0, bytes});
  if (operation.kind != Kind::Broadcast || hostOf(hosts_, operation.peer) != self_) return {};
  return copy(result, inputOf(operation.peer), sliceOf(bytes, localIndex_, home().ranks.size()));
}

Status Group::addUp(const Operation& operation, const Patience& patience) {
  std::vector<const uint8_t*> inputs;
  for (const uint32_t rank : home().ranks) inputs.push_back(inputOf(rank));
  const bool whole = hosts_.size() == 1;
  const float divisor = operation.reduction == Operation::Reduction::Mean ? static_cast<float>(worldSize()) : 1;
  auto* result = reinterpret_cast<uint8_t*>(segment().result());
  float* partials = operation.dtype == DType::F32 ? segment().result() : segment().shard(worldSize());
  const Range slice = sliceOf(operation.count, localIndex_, home().ranks.size());
  for (size_t begin = slice.begin; begin < slice.end; begin += kAbortStep) {
    if (Status still = member_->mayGoOn(patience); !still.ok()) return still;
    const Range step{begin, std::min(begin + kAbortStep, slice.end)};
    if (whole) typedSum(inputs, operation.dtype, step, divisor, result);
    else partialSum(inputs, operation.dtype, step, partials);
  }
  return {};
}

// The first rank of each host takes part in the ring; the others wait for it at the next barrier.
Status Group::exchange(const Operation& operation, const Patience& patience) {
  if (ring_ != nullptr) ring_->arm(planOf(operation));
  member_->announcePhase();
  if (Status all = member_->awaitPhase(patience); !all.ok()) return all;
  if (ring_ == nullptr) return {};
  ring_->start();
  const auto arrived = [&](const MemberRecord& member) {
    const auto rank = static_cast<uint32_t>(&member - &segment().member(0));
    return std::ranges::find(home().ranks, rank) != home().ranks.end() || ring_->done();
  };
  return member_->await(arrived, patience);
}

RingPlan Group::planOf(const Operation& operation) const {
  RingPlan plan;
  plan.reduces = operation.reduces();
  plan.gathers = operation.kind != Kind::ReduceScatter;
  plan.dtype = operation.dtype;
  plan.divisor = operation.reduction == Operation::Reduction::Mean ? static_cast<float>(worldSize()) : 1;
  plan.blocks.resize(hosts_.size());
  for (size_t host = 0; host < hosts_.size(); host++)
    for (const uint32_t rank : hosts_[host].ranks) {
      if (operation.reduces()) plan.blocks[host].push_back(sliceOf(operation.count, rank, worldSize()));
      if (operation.kind == Kind::AllGather)
        plan.blocks[host].push_back({rank * operation.count, (rank + 1) * operation.count});
      if (operation.kind == Kind::Broadcast && rank == operation.peer) plan.blocks[host].push_back({0, operation.count});
    }
  return plan;
}

Status Group::send(const Operation& operation, const Patience& patience) {
  MemberRecord& self = member_->self();
  const uint64_t number = self.sends.load(std::memory_order_relaxed) + 1;
  offerMessage(self, number, operation.encoded());
  segment().ring();
  const MemberRecord& other = segment().member(operation.peer);
  const auto taken = [&](const MemberRecord& member) {
    return &member != &other || self.taken.load(std::memory_order_acquire) / 2 >= number;
  };
  if (Status done = member_->await(taken, patience); !done.ok()) return done;
  if (self.taken.load(std::memory_order_acquire) % 2 == 0) return {};
  return unwantedBy(operation.peer, operation);
}

Status Group::receive(const Operation& operation, const Patience& patience) {
  MemberRecord& sender = segment().member(operation.peer);
  std::optional<OpenMessage> message;
  const auto offered = [&](const MemberRecord& member) {
    if (&member != &sender) return true;
    message = openMessageOf(sender);
    return message && message->operation.peer == member_->rank();
  };
  if (Status came = member_->await(offered, patience); !came.ok()) return came;
  const Operation& theirs = message->operation;
  const bool fits = theirs.dtype == operation.dtype && theirs.count == operation.count;
  if (fits) streamCopy(operation.into.data(), inputOf(operation.peer), operation.bytes());
  answerMessage(sender, message->number, fits);
  segment().ring();
  if (fits) return {};
  return differsFrom(operation, operation.peer, theirs);
}

}  // namespace muster
