#include "core/group_ring.h"

#include <algorithm>

namespace muster {

namespace {

constexpr unsigned kLegShift = 60;
constexpr uint64_t kPlaceMask = (uint64_t{1} << kLegShift) - 1;

enum class News : uint8_t { Sent = 1, Taken = 2 };

bool holds(const std::vector<uint32_t>& ranks, uint32_t rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

}  // namespace

GroupRing::GroupRing(const MeshSegment& segment, std::vector<MeshHost> hosts, size_t self)
    : segment_(segment), hosts_(std::move(hosts)), self_(self), arriving_(kMeshPieceBytes / sizeof(float)) {}

// Two shards behind those of the ranks, so that float32 partial sums of half as wide elements have room.
float* GroupRing::partials(DType dtype) const {
  return dtype == DType::F32 ? segment_.result() : segment_.shard(segment_.shape().worldSize);
}

void GroupRing::arm(const RingPlan& plan) {
  const std::lock_guard lock(guard_);
  plan_ = plan;
  pieces_.clear();
  due_.clear();
  toCome_ = toGo_ = 0;
  const size_t step = kMeshPieceBytes / (plan.reduces ? sizeof(float) : sizeOf(plan.dtype));
  for (size_t owner = 0; owner < plan.blocks.size(); owner++)
    for (const Range block : plan.blocks[owner])
      for (size_t begin = block.begin; begin < block.end; begin += step)
        pieces_.push_back({{begin, std::min(begin + step, block.end)}, owner});
  for (const Piece& piece : pieces_) {
    // A sum does not come to where it starts nor leave its owner; a whole block does not come to its owner.
    toCome_ += (plan.reduces && piece.owner != previous()) + (plan.gathers && piece.owner != self_);
    toGo_ += (plan.reduces && piece.owner != self_) + (plan.gathers && piece.owner != next());
  }
}

void GroupRing::start() {
  {
    const std::lock_guard lock(guard_);
    for (size_t index = 0; index < pieces_.size(); index++) {
      if (plan_.reduces && pieces_[index].owner == previous()) due_.push_back({Leg::Sum, index});
      if (!plan_.reduces && plan_.gathers && pieces_[index].owner == self_) due_.push_back({Leg::Whole, index});
    }
  }
  segment_.ring();
}

bool GroupRing::done() const {
  const std::lock_guard lock(guard_);
  return toCome_ == 0 && toGo_ == 0;
}

std::span<uint8_t> GroupRing::bytesOf(const Due& due) const {
  const Range range = pieces_[due.index].range;
  const size_t width = due.leg == Leg::Sum ? sizeof(float) : sizeOf(plan_.dtype);
  auto* base = reinterpret_cast<uint8_t*>(due.leg == Leg::Sum ? partials(plan_.dtype) : segment_.result());
  return {base + range.begin * width, (range.end - range.begin) * width};
}

void GroupRing::pass(const Due& due) {
  bool idle = false;
  {
    const std::lock_guard lock(guard_);
    idle = due_.empty();
    due_.push_back(due);
  }
  if (idle) segment_.ring();  // the sender may sleep
}

void GroupRing::takenIn() {
  bool over = false;
  {
    const std::lock_guard lock(guard_);
    over = --toCome_ == 0 && toGo_ == 0;
  }
  if (over) segment_.ring();
}

void GroupRing::passed() {
  bool over = false;
  {
    const std::lock_guard lock(guard_);
    over = --toGo_ == 0 && toCome_ == 0;
  }
  if (over) segment_.ring();
}

Result<bool> GroupRing::sendDue(const MeshRoad& road) {
  const Result<bool> piece = sendPiece(road);
  if (!piece.ok()) return piece;
  const Result<bool> message = sendMessages(road);
  if (!message.ok()) return message;
  return piece.value() || message.value();
}

Result<bool> GroupRing::sendPiece(const MeshRoad& road) {
  if (road.to().leader != hosts_[next()].leader) return false;
  Due due{};
  ByteView bytes;
  {
    const std::lock_guard lock(guard_);
    if (due_.empty()) return false;
    due = due_.front();
    due_.pop_front();
    bytes = bytesOf(due);
  }
  const uint64_t place = static_cast<uint64_t>(due.leg) << kLegShift | due.index;
  if (Status sent = road.send({FrameType::Piece, bytes, place}); !sent.ok()) return sent;
  passed();
  return true;
}

Status GroupRing::take(const MeshHost& from, Connection& connection, const FrameHeader& header, const Patience& patience) {
  if (header.type == FrameType::Parcel) return takeParcel(from, header, connection, patience);
  if (header.type != FrameType::Piece) return {Code::Corrupt, "a frame out of order", {}};
  const auto leg = static_cast<Leg>(header.offset >> kLegShift);
  if (leg == Leg::Message) return takeMessage(from, header, connection, patience);
  const size_t index = header.offset & kPlaceMask;
  std::span<uint8_t> place;
  {
    const std::lock_guard lock(guard_);
    const bool expected = toCome_ > 0 && index < pieces_.size() && from.leader == hosts_[previous()].leader &&
                          (leg == Leg::Sum ? plan_.reduces : leg == Leg::Whole && plan_.gathers);
    if (expected) place = bytesOf({leg, index});
    if (!expected || place.size() != header.length) return {Code::Corrupt, "a piece that nobody waits for", {}};
  }
  if (leg == Leg::Sum) return takeSum(header, connection, index, patience);
  if (Status got = connection.receivePayload(header, place, patience); !got.ok()) return got;
  if (pieces_[index].owner != next()) pass({Leg::Whole, index});
  takenIn();
  return {};
}

Status GroupRing::takeSum(const FrameHeader& header, Connection& connection, size_t index, const Patience& patience) {
  const std::span<float> arriving(arriving_.data(), header.length / sizeof(float));
  const std::span<uint8_t> into(reinterpret_cast<uint8_t*>(arriving.data()), header.length);
  if (Status got = connection.receivePayload(header, into, patience); !got.ok()) return got;
  const Piece& piece = pieces_[index];
  addPartial(partials(plan_.dtype) + piece.range.begin, arriving.data(), arriving.size());
  if (piece.owner != self_) {
    pass({Leg::Sum, index});
  } else {
    auto* result = reinterpret_cast<uint8_t*>(segment_.result());
    finishSum(partials(plan_.dtype), plan_.dtype, piece.range, plan_.divisor, result);
    if (plan_.gathers) pass({Leg::Whole, index});
  }
  takenIn();
  return {};
}

// Messages of this host's ranks for ranks of that host, and what this host's ranks took of that host's.
Result<bool> GroupRing::sendMessages(const MeshRoad& road) {
  bool sent = false;
  const auto tell = [&](News news, uint32_t rank, uint64_t number, uint64_t op) -> Status {
    ByteWriter out;
    out.number(static_cast<uint8_t>(news)).number(rank).number(number).number(op);
    sent = true;
    return road.send({FrameType::Parcel, out.bytes()});
  };
  const auto known = [&](uint32_t rank) -> uint64_t& {
    const std::lock_guard lock(guard_);
    return told_[{road.to().leader, rank}];
  };
  for (const uint32_t rank : hosts_[self_].ranks) {
    const std::optional<OpenMessage> message = openMessageOf(segment_.member(rank));
    uint64_t& told = known(rank);
    if (!message || message->number <= told || !holds(road.to().ranks, message->operation.peer)) continue;
    const auto* from = reinterpret_cast<const uint8_t*>(segment_.shard(rank));
    const uint64_t place = static_cast<uint64_t>(Leg::Message) << kLegShift | static_cast<uint64_t>(rank) << 40;
    if (Status out = road.sendPieces({from, message->operation.bytes()}, place); !out.ok()) return out;
    if (Status out = tell(News::Sent, rank, message->number, message->operation.encoded()); !out.ok()) return out;
    told = message->number;
  }
  for (const uint32_t rank : road.to().ranks) {
    const uint64_t taken = segment_.member(rank).taken.load(std::memory_order_acquire);
    uint64_t& told = known(rank);
    if (taken == told) continue;
    if (Status out = tell(News::Taken, rank, taken, 0); !out.ok()) return out;
    told = taken;
  }
  return sent;
}

Status GroupRing::takeMessage(const MeshHost& from, const FrameHeader& header, Connection& connection, const Patience& patience) {
  const uint64_t place = header.offset & kPlaceMask;
  const auto rank = static_cast<uint32_t>(place >> 40);
  const uint64_t at = place & ((uint64_t{1} << 40) - 1);
  const uint64_t room = segment_.shape().shardElements * sizeof(float);
  if (!holds(from.ranks, rank) || at > room || header.length > room - at)
    return {Code::Corrupt, "a message outside of its rank's memory", {}};
  auto* into = reinterpret_cast<uint8_t*>(segment_.shard(rank)) + at;
  return connection.receivePayload(header, {into, header.length}, patience);
}

Status GroupRing::takeParcel(const MeshHost& from, const FrameHeader& header, Connection& connection, const Patience& patience) {
  const Result<Bytes> payload = connection.receiveSmall(header, patience);
  if (!payload.ok()) return payload.status();
  ByteReader in(payload.value());
  const auto news = static_cast<News>(in.number<uint8_t>());
  const auto rank = in.number<uint32_t>();
  const auto number = in.number<uint64_t>();
  const auto op = in.number<uint64_t>();
  const bool theirs = holds(from.ranks, rank), ours = holds(hosts_[self_].ranks, rank);
  const bool fits = news == News::Sent ? theirs : news == News::Taken && ours;
  if (!in.finished() || !fits) return {Code::Corrupt, "a parcel that cannot be read", {}};
  MemberRecord& member = segment_.member(rank);
  if (news == News::Taken) member.taken.store(number, std::memory_order_release);
  else offerMessage(member, number, op);
  segment_.ring();
  return {};
}

}  // namespace muster
