#include "core/mesh_bridge.h"

#include <algorithm>
#include <exception>

#include "core/futex.h"
#include "core/socket.h"

namespace muster {

Status MeshRoad::send(const OutgoingFrame& frame) const {
  return connection_.send(frame, {Deadline::in(network().stall), &closing_});
}

Status MeshRoad::sendPieces(ByteView bytes, uint64_t offset) const {
  for (size_t at = 0; at < bytes.size(); at += kMeshPieceBytes) {
    const ByteView piece = bytes.subspan(at, std::min(kMeshPieceBytes, bytes.size() - at));
    if (Status sent = send({FrameType::Piece, piece, offset + at}); !sent.ok()) return sent;
  }
  return {};
}

void MeshBridge::add(MeshHost host, Connection connection) {
  Peer& peer = peers_.emplace_back(Peer{std::move(host), std::move(connection)});
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
void MeshBridge::lose(const Peer& peer, const std::string& why) {
  bool lost = false;
  for (const uint32_t rank : peer.host.ranks) {
    const MemberState to = rank == peer.host.leader ? MemberState::Dead : MemberState::Left;
    for (const MemberState from : {MemberState::Absent, MemberState::Joined}) {
      auto expected = static_cast<uint32_t>(from);
      const bool changed = segment_.member(rank).state.compare_exchange_strong(expected, static_cast<uint32_t>(to));
      lost = lost || (changed && rank == peer.host.leader);
    }
  }
  segment_.ring();
  if (!lost) return;
  try {
    activity().note(Event::HostLost, peerOf(peer.connection.fd()), "the host of " + namesOf({peer.host.leader}) + ": " + why);
  } catch (const std::exception&) {
    activity().note(Event::HostLost, "", "out of memory");  // its thread must not end the process
  }
}

void MeshBridge::sendLoop(Peer& peer) {
  try {
    sendUntilStopped(peer);
  } catch (const std::exception& error) {
    lose(peer, error.what());  // out of memory for a frame
  }
  {
    const std::lock_guard lock(guard_);
    sending_--;
  }
  ended_.notify_all();
}

void MeshBridge::sendUntilStopped(Peer& peer) {
  const MeshRoad road(peer.host, peer.connection, closing_);
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
      status = sendNews(road, local_[i], phases[i], states[i], sent);
    if (status.ok()) {
      const Result<bool> due = cargo_.sendDue(road);
      status = due.status();
      sent = sent || (due.ok() && due.value());
    }
    if (status.ok() && !sent && Clock::now() - lastSent >= network().alive) {
      status = road.send({FrameType::Alive});
      sent = true;
    }
    if (!status.ok()) return lose(peer, status.message);
    if (sent) lastSent = Clock::now();
    if (last) return;
    if (!sent) futexWait(segment_.bell(), bell, Deadline::in(network().alive));
  }
}

// Sends what a rank of this host has announced since the last time.
Status MeshBridge::sendNews(const MeshRoad& road, uint32_t rank, uint64_t& sentPhase, uint32_t& sentState, bool& sent) {
  const MemberRecord& member = segment_.member(rank);
  const uint32_t state = member.state.load(std::memory_order_acquire);  // before the phase; see MeshWatch::lost
  const uint64_t phase = member.phase.load(std::memory_order_acquire);
  while (sentPhase < phase || sentState != state) {
    const uint64_t next = std::min(sentPhase + 1, phase);
    if (next > sentPhase)
      if (Status bytes = cargo_.sendBefore(road, rank, next); !bytes.ok()) return bytes;
    // Its state last: who arrived and left has arrived, and what it answered before it left goes first.
    if (state != sentState)
      if (const Result<bool> due = cargo_.sendDue(road); !due.ok()) return due.status();
    const uint32_t said = next == phase ? state : static_cast<uint32_t>(MemberState::Joined);
    ByteWriter news;
    news.number(rank).number(said).number(next);
    if (next > sentPhase && cargo_.opens(next))
      news.number(member.op.load(std::memory_order_relaxed)).raw(segment_.claims(rank));
    if (Status out = road.send({FrameType::News, news.bytes()}); !out.ok()) return out;
    sentPhase = next;
    sentState = said;
    sent = true;
  }
  return {};
}

void MeshBridge::receiveLoop(Peer& peer) {
  // A host says nothing while it still meets others. Whether it comes at all is for the deadline of the mesh to say.
  Patience patience{Deadline::in(kForEver), &closing_};
  std::string why;
  try {
    for (;;) {
      const Status received = receiveOne(peer, patience);
      why = received.message;
      if (!received.ok()) break;
      patience.silence = silence_;
    }
  } catch (const std::exception& error) {
    why = error.what();  // out of memory for a frame: the host is lost to this mesh, which is what the others are told
  }
  if (!closing_.requested()) lose(peer, why);
}

Status MeshBridge::receiveOne(Peer& peer, const Patience& patience) {
  const Result<FrameHeader> header = peer.connection.receiveHeader(patience);
  if (!header.ok()) return header.status();
  const FrameType type = header.value().type;
  if (type != FrameType::Alive && type != FrameType::News)
    return cargo_.take(peer.host, peer.connection, header.value(), patience);
  const Result<Bytes> payload = peer.connection.receiveSmall(header.value(), patience);
  if (!payload.ok()) return payload.status();
  return type == FrameType::Alive ? Status{} : apply(peer, payload.value());
}

Status MeshBridge::apply(const Peer& peer, ByteView news) {
  ByteReader in(news);
  const auto rank = in.number<uint32_t>();
  const auto state = in.number<uint32_t>();
  const auto phase = in.number<uint64_t>();
  const bool claiming = in.remaining() > 0;
  const auto op = claiming ? in.number<uint64_t>() : 0;
  const ByteView claims = claiming ? in.raw(segment_.shape().shards) : ByteView{};
  const bool theirs = std::ranges::find(peer.host.ranks, rank) != peer.host.ranks.end();
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
