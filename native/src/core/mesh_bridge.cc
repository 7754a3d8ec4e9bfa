#include "core/mesh_bridge.h"

#include <algorithm>
#include <exception>

#include "core/futex.h"
#include "cpu/ordered_sum.h"

namespace muster {

namespace {

constexpr Milliseconds kAlive{50};        // how often a host hears from us that has nothing to hear
constexpr Milliseconds kSilence{1'000};   // without a word for so long a host is lost
constexpr Milliseconds kStall{5'000};     // a host that takes no byte for so long is lost
constexpr Milliseconds kFarewell{200};    // for what is announced when the mesh ends
constexpr Milliseconds kForEver{1'000'000'000};
constexpr size_t kPieceBytes = 256 * 1024;

}  // namespace

void MeshBridge::add(uint32_t leader, std::vector<uint32_t> ranks, Connection connection) {
  Peer& peer = peers_.emplace_back(Peer{leader, std::move(ranks), std::move(connection)});
  {
    const std::lock_guard lock(guard_);
    sending_++;
  }
  peer.sender = std::thread([this, &peer] { sendLoop(peer); });
  peer.receiver = std::thread([this, &peer] { receiveLoop(peer); });
}

void MeshBridge::stop() {
  stopping_.request();
  segment_.ring();
  {
    std::unique_lock lock(guard_);
    // Whether or not all could be said in time: the others notice that this host is gone.
    [[maybe_unused]] const bool said = ended_.wait_for(lock, kFarewell, [this] { return sending_ == 0; });
  }
  closing_.request();
  for (Peer& peer : peers_) {
    if (peer.sender.joinable()) peer.sender.join();
    if (peer.receiver.joinable()) peer.receiver.join();
  }
  peers_.clear();
}

// A host that is not heard any more: its leader counts as dead, unless it said that it leaves; the other ranks, which may
// well live, as gone.
void MeshBridge::lose(const Peer& peer) {
  for (const uint32_t rank : peer.ranks) {
    const MemberState to = rank == peer.leader ? MemberState::Dead : MemberState::Left;
    for (const MemberState from : {MemberState::Absent, MemberState::Joined}) {
      auto expected = static_cast<uint32_t>(from);
      segment_.member(rank).state.compare_exchange_strong(expected, static_cast<uint32_t>(to));
    }
  }
  segment_.ring();
}

void MeshBridge::sendLoop(Peer& peer) {
  try {
    sendUntilStopped(peer);
  } catch (const std::exception&) {
    lose(peer);  // out of memory for a frame
  }
  {
    const std::lock_guard lock(guard_);
    sending_--;
  }
  ended_.notify_all();
}

void MeshBridge::sendUntilStopped(Peer& peer) {
  std::vector<uint64_t> phases(local_.size(), 0);
  std::vector<uint32_t> states(local_.size(), static_cast<uint32_t>(MemberState::Absent));
  auto lastSent = Clock::now();
  for (;;) {
    const uint32_t bell = segment_.bell().load(std::memory_order_acquire);
    const bool last = stopping_.requested();
    watch_.markDeaths();
    bool sent = false;
    Status status;
    for (size_t i = 0; i < local_.size() && status.ok(); i++)
      status = sendNews(peer, local_[i], phases[i], states[i], sent);
    if (status.ok() && !sent && Clock::now() - lastSent >= kAlive) {
      status = peer.connection.send({FrameType::Alive}, {Deadline::in(kStall), &closing_});
      sent = true;
    }
    if (!status.ok()) return lose(peer);
    if (sent) lastSent = Clock::now();
    if (last) return;
    if (!sent) futexWait(segment_.bell(), bell, Deadline::in(kAlive));
  }
}

// Sends what a rank of this host has announced since the last time.
Status MeshBridge::sendNews(Peer& peer, uint32_t rank, uint64_t& sentPhase, uint32_t& sentState, bool& sent) {
  const MemberRecord& member = segment_.member(rank);
  const uint32_t state = member.state.load(std::memory_order_acquire);  // before the phase; see MeshWatch::lost
  const uint64_t phase = member.phase.load(std::memory_order_acquire);
  while (sentPhase < phase || sentState != state) {
    const uint64_t next = std::min(sentPhase + 1, phase);
    if (next > sentPhase)
      if (Status bytes = sendBytes(peer, rank, next); !bytes.ok()) return bytes;
    // Its state last: who arrived and left has arrived.
    const uint32_t said = next == phase ? state : static_cast<uint32_t>(MemberState::Joined);
    ByteWriter news;
    news.number(rank).number(said).number(next);
    // With its shards, and only then: after the sum this rank may be claiming for its next reduce already.
    if (next > sentPhase && next % 2 == 0)
      news.number(member.op.load(std::memory_order_relaxed)).raw(segment_.claims(rank));
    const Patience patience{Deadline::in(kStall), &closing_};
    if (Status out = peer.connection.send({FrameType::News, news.bytes()}, patience); !out.ok()) return out;
    sentPhase = next;
    sentState = said;
    sent = true;
  }
  return {};
}

// Phase 1 is joining; then each reduce has an even one, its shards are written, and an odd one, its slice is summed.
Status MeshBridge::sendBytes(Peer& peer, uint32_t rank, uint64_t phase) {
  const MeshShape& shape = segment_.shape();
  if (phase == 1) return {};
  if (phase % 2 == 1) {
    const Range slice = sliceOf(shape.shardElements, rank, shape.worldSize);
    return sendRange(peer, shape.shards, slice.begin, slice.end);
  }
  const std::span<uint8_t> claims = segment_.claims(rank);
  for (uint32_t shard = 0; shard < shape.shards; shard++) {
    if (claims[shard] == 0) continue;
    for (const uint32_t theirs : peer.ranks) {
      const Range slice = sliceOf(shape.shardElements, theirs, shape.worldSize);
      if (Status sent = sendRange(peer, shard, slice.begin, slice.end); !sent.ok()) return sent;
    }
  }
  return {};
}

// Elements of one shard, or of the result behind the last one. A piece's offset counts bytes in all of them together.
Status MeshBridge::sendRange(Peer& peer, uint32_t index, uint64_t begin, uint64_t end) {
  const uint64_t shardBytes = segment_.shape().shardElements * sizeof(float);
  const auto* from = reinterpret_cast<const uint8_t*>(segment_.shard(index));
  for (uint64_t at = begin * sizeof(float); at < end * sizeof(float);) {
    const ByteView piece{from + at, std::min<size_t>(kPieceBytes, end * sizeof(float) - at)};
    const Patience patience{Deadline::in(kStall), &closing_};
    if (Status sent = peer.connection.send({FrameType::Piece, piece, index * shardBytes + at}, patience); !sent.ok())
      return sent;
    at += piece.size();
  }
  return {};
}

void MeshBridge::receiveLoop(Peer& peer) {
  const Patience patience{Deadline::in(kForEver), &closing_, kSilence};
  try {
    while (receiveOne(peer, patience).ok()) {
    }
  } catch (const std::exception&) {
    // Out of memory for a frame: the host is lost to this mesh, which is what the others are told.
  }
  if (!closing_.requested()) lose(peer);
}

Status MeshBridge::receiveOne(Peer& peer, const Patience& patience) {
  const Result<FrameHeader> header = peer.connection.receiveHeader(patience);
  if (!header.ok()) return header.status();
  const auto& [type, length, offset, checksum, seed] = header.value();
  if (type == FrameType::Piece) {
    const uint64_t shardBytes = segment_.shape().shardElements * sizeof(float);
    const uint64_t index = offset / shardBytes, at = offset % shardBytes;
    if (index > segment_.shape().shards || length > shardBytes - at)
      return {Code::Corrupt, "a piece outside of the shards", {}};
    auto* into = reinterpret_cast<uint8_t*>(segment_.shard(static_cast<uint32_t>(index)));
    return peer.connection.receivePayload(header.value(), {into + at, length}, patience);
  }
  Bytes payload(length);
  if (Status got = peer.connection.receivePayload(header.value(), payload, patience); !got.ok()) return got;
  if (type == FrameType::Alive) return {};
  if (type != FrameType::News) return {Code::Corrupt, "a frame out of order", {}};
  return apply(peer, payload);
}

Status MeshBridge::apply(const Peer& peer, ByteView news) {
  ByteReader in(news);
  const auto rank = in.number<uint32_t>();
  const auto state = in.number<uint32_t>();
  const auto phase = in.number<uint64_t>();
  const bool claiming = in.remaining() > 0;
  const auto op = claiming ? in.number<uint64_t>() : 0;
  const ByteView claims = claiming ? in.raw(segment_.shape().shards) : ByteView{};
  const bool theirs = std::ranges::find(peer.ranks, rank) != peer.ranks.end();
  if (!in.finished() || !theirs || state > static_cast<uint32_t>(MemberState::Dead))
    return {Code::Corrupt, "news that cannot be read", {}};
  MemberRecord& member = segment_.member(rank);
  if (claiming) {
    std::ranges::copy(claims, segment_.claims(rank).begin());
    member.op.store(op, std::memory_order_relaxed);
  }
  member.phase.store(phase, std::memory_order_release);
  uint32_t known = member.state.load(std::memory_order_acquire);
  while (known != static_cast<uint32_t>(MemberState::Dead) && !member.state.compare_exchange_weak(known, state)) {
  }
  segment_.ring();
  return {};
}

}  // namespace muster
