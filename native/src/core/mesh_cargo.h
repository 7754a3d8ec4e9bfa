// What crosses between two hosts of a mesh beside the news of its ranks. One thread for each direction of each connection
// calls it, so calls for different hosts come at the same time.
#pragma once

#include "core/connection.h"

namespace muster {

// Another host: its first rank, and all its ranks.
struct MeshHost {
  uint32_t leader;
  std::vector<uint32_t> ranks;
};

// The way out to another host.
class MeshRoad {
 public:
  MeshRoad(const MeshHost& to, Connection& connection, const Abort& closing)
      : to_(to), connection_(connection), closing_(closing) {}

  const MeshHost& to() const { return to_; }
  Status send(const OutgoingFrame& frame) const;
  // Bytes in pieces of at most kMeshPieceBytes; the offset of the first one goes with them and counts on.
  Status sendPieces(ByteView bytes, uint64_t offset) const;

 private:
  const MeshHost& to_;
  Connection& connection_;
  const Abort& closing_;
};

class MeshCargo {
 public:
  virtual ~MeshCargo() = default;
  // True when the op and the claims of a rank cross with the news of this phase.
  virtual bool opens(uint64_t phase) const = 0;
  // Sends what must be there before the news that a rank of this host is in this phase.
  virtual Status sendBefore(const MeshRoad& road, uint32_t rank, uint64_t phase) = 0;
  // Sends something of what is due apart from phases; true when something was sent.
  virtual Result<bool> sendDue(const MeshRoad& road) = 0;
  // Takes in a Piece or a Parcel.
  virtual Status take(const MeshHost& from, Connection& connection, const FrameHeader& header, const Patience& patience) = 0;
};

}  // namespace muster
