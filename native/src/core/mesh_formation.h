// How a mesh comes together: rank 0 creates the segment and hands it to those who prove their place in it.
#pragma once

#include "core/bytes.h"
#include "core/mesh_segment.h"
#include "core/patience.h"

namespace muster {

struct MeshOptions {
  Bytes key;
  std::string job;
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::vector<std::string> members;  // in rank order
  std::string socketDir;
  uint32_t shards = 0;
  uint64_t shardElements = 0;

  MeshShape shape() const { return {epoch, static_cast<uint32_t>(members.size()), shards, shardElements}; }
};

struct JoinedSegment {
  MeshSegment segment;
  UniqueFd host;  // connection to rank 0
};

// Code::InvalidArgument naming the first option that is out of range.
Status checkOptions(const MeshOptions& options);

// Rank 0: hands the segment to all other ranks. Returns the connections by rank. Code::Timeout with the ranks that did
// not come, Code::PeerLost with one that came and went.
Result<std::vector<UniqueFd>> gatherMembers(const MeshOptions& options, const MeshSegment& segment,
                                            const Patience& patience);

// Other ranks: joins the mesh of (job, epoch); tries until rank 0 is there. Code::Refused when rank 0 knows another mesh.
Result<JoinedSegment> joinSegment(const MeshOptions& options, const Patience& patience);

}  // namespace muster
