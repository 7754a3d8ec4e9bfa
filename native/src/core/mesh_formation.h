// How a mesh comes together: on each host the leader, its first rank, creates the segment and hands it to those who prove
// their place in it; then the leaders of all hosts connect to each other.
#pragma once

#include <memory>

#include "core/bytes.h"
#include "core/handshake.h"
#include "core/mesh_segment.h"
#include "core/patience.h"

namespace muster {

class VersionStore;

// Where a member of a mesh over several hosts is.
struct MeshPlace {
  std::string host;     // equal for the members that share memory
  std::string address;  // TCP address of the member's version store
};

struct MeshOptions {
  Bytes key;
  std::string job;
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::vector<std::string> members;  // in rank order
  std::string socketDir;
  uint32_t shards = 0;
  uint64_t shardElements = 0;
  std::vector<MeshPlace> places{};        // by rank; empty when all members are on one host
  std::shared_ptr<VersionStore> store{};  // lets the leaders of other hosts in; needed when there are several
  std::string group{};                    // name of a group; empty for the gradient mesh
  Milliseconds call = network().meshCall;               // until a call at the leader of another host is given up, and made again

  // The first rank on the host of a rank.
  uint32_t leaderOf(uint32_t member) const;
  // The ranks on the host of a rank.
  std::vector<uint32_t> neighboursOf(uint32_t member) const;
  // Under what number the leaders of hosts look for each other: the epoch, or a hash of a group's name and epoch.
  uint64_t meeting() const;
  // What this rank backs with pages from the start: the ranks of a host share out what is surely used there. Of a gradient mesh that is the result,
  // and of every shard the slices that are summed here; the rest of a shard is backed by its writer. Of a group it is the result and the inputs.
  std::vector<ShardPart> residents() const;
  MeshShape shape() const { return {epoch, static_cast<uint32_t>(members.size()), shards, shardElements}; }
};

// What all members must agree on, and who is speaking: the body of a Hello.
Bytes encodeClaim(const MeshOptions& options, uint32_t rank);

// The rank of a caller whose claim fits the mesh of `options`. Code::Refused for any other claim.
Result<uint32_t> judgeClaim(const MeshOptions& options, const Hello& hello);

struct JoinedSegment {
  MeshSegment segment;
  UniqueFd host;  // connection to the leader
};

// Code::InvalidArgument naming the first option that is out of range.
Status checkOptions(const MeshOptions& options);

// Leaders: hands the segment to all other ranks of the host. Returns the connections by rank. Code::Timeout with the ranks that did
// not come, Code::PeerLost with one that came and went.
Result<std::vector<UniqueFd>> gatherMembers(const MeshOptions& options, const MeshSegment& segment,
                                            const Patience& patience);

// Other ranks: joins the mesh of (job, epoch); tries until the leader is there. Code::Refused when it knows another mesh.
Result<JoinedSegment> joinSegment(const MeshOptions& options, const Patience& patience);

struct OtherHost {
  uint32_t leader;
  Connection connection;
};

// Leaders: connects to the leaders of all other hosts; a leader calls those before it and lets those after it in. Who calls may give
// up and call again, as a leader may be busy with its own host: a caller is in once it has answered the grant.
// Code::Timeout with the ranks of the leaders that did not come, Code::PeerLost with one that came and went.
Result<std::vector<OtherHost>> meetLeaders(const MeshOptions& options, const Patience& patience);

}  // namespace muster
