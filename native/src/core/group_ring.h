// What crosses between the hosts of a group. Sums and copies go round a ring of hosts in pieces, and each host passes a piece
// on as soon as it has it; messages from rank to rank go straight from host to host.
//
// The result is cut into blocks, one for each host. A block's sum starts at the host behind its owner with the partial sum of
// that host, gathers those of the others on the way, and is whole at its owner; from there the finished block goes round.
// Each host sends 2 (H − 1) / H of the result, however many ranks it has.
#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "core/collectives.h"
#include "core/mesh_cargo.h"
#include "core/mesh_segment.h"
#include "core/message.h"

namespace muster {

struct RingPlan {
  bool reduces = false;
  bool gathers = false;
  DType dtype = DType::U8;
  float divisor = 1;
  std::vector<std::vector<Range>> blocks{};  // by host, in elements
};

class GroupRing : public MeshCargo {
 public:
  // `hosts` in the order of the ring, `self` among them.
  GroupRing(const MeshSegment& segment, std::vector<MeshHost> hosts, size_t self);

  // From now on pieces of this exchange are taken in. Before the phase that lets the other hosts begin.
  void arm(const RingPlan& plan);
  // Sends this host's first pieces on their way. After all hosts are armed.
  void start();
  // True when everything came and everything went. Rings the segment's bell when that becomes so.
  bool done() const;

  // Phases go by three: arrived, partial sums are there, all is there.
  bool opens(uint64_t phase) const override { return phase % 3 == 2; }
  Status sendBefore(const MeshRoad&, uint32_t, uint64_t) override { return {}; }
  Result<bool> sendDue(const MeshRoad& road) override;
  Status take(const MeshHost& from, Connection& connection, const FrameHeader& header, const Patience& patience) override;

  // Where partial sums are kept: the result itself for float32.
  float* partials(DType dtype) const;

 private:
  enum class Leg : uint64_t { Sum = 0, Whole = 1, Message = 2 };
  struct Piece {
    Range range;
    size_t owner;
  };
  struct Due {
    Leg leg;
    size_t index;
  };

  size_t next() const { return (self_ + 1) % hosts_.size(); }
  size_t previous() const { return (self_ + hosts_.size() - 1) % hosts_.size(); }
  void pass(const Due& due);
  void passed();
  void takenIn();
  std::span<uint8_t> bytesOf(const Due& due) const;
  Result<bool> sendPiece(const MeshRoad& road);
  Result<bool> sendMessages(const MeshRoad& road);
  Status takeSum(const FrameHeader& header, Connection& connection, size_t index, const Patience& patience);
  Status takeMessage(const MeshHost& from, const FrameHeader& header, Connection& connection, const Patience& patience);
  Status takeParcel(const MeshHost& from, const FrameHeader& header, Connection& connection, const Patience& patience);

  const MeshSegment& segment_;
  const std::vector<MeshHost> hosts_;
  const size_t self_;
  std::vector<float> arriving_;  // of the one thread that hears the previous host
  mutable std::mutex guard_;
  RingPlan plan_;
  std::vector<Piece> pieces_;  // the same on all hosts; changed only while nothing is under way
  std::deque<Due> due_;
  size_t toCome_ = 0;
  size_t toGo_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> told_;  // (host, rank) → messages, or takings, that it was told of
};

}  // namespace muster
