#include "core/mesh_formation.h"

#include <poll.h>

#include <algorithm>

#include "core/handshake.h"
#include "core/mesh_watch.h"
#include "core/socket.h"
#include "core/xxh64.h"

namespace muster {

namespace {

constexpr Milliseconds kRetry{5};
constexpr Milliseconds kGreeting{1'000};  // one slow caller must not keep the others out
constexpr Milliseconds kSlice{20};

// The name of a forming mesh. It holds the epoch: builds of different epochs never meet.
Result<std::string> meetingPoint(const MeshOptions& options) {
  return socketPath(options.socketDir, 'm', options.job + "\n" + std::to_string(options.epoch));
}

// What all members must agree on, and who is speaking.
Bytes encodeClaim(const MeshOptions& options, uint32_t rank) {
  ByteWriter members;
  for (const std::string& member : options.members) members.text(member);
  ByteWriter out;
  out.number(options.epoch).number(options.shards).number(options.shardElements);
  return out.number(xxh64(members.bytes())).number(rank).bytes();
}

// The rank of a caller whose claim fits ours.
Result<uint32_t> judge(const MeshOptions& options, const Hello& hello) {
  if (hello.purpose != Purpose::Mesh) return Status{Code::Refused, "this is a forming mesh", {}};
  if (hello.job != options.job) return Status{Code::Refused, "this mesh belongs to another job", {}};
  ByteReader in(hello.body);
  in.raw(encodeClaim(options, 0).size() - sizeof(uint32_t));
  const auto rank = in.number<uint32_t>();
  const bool fits = in.finished() && rank > 0 && rank < options.members.size() && hello.body == encodeClaim(options, rank);
  if (!fits || hello.member != options.members[rank])
    return Status{Code::Refused,
                  "epoch " + std::to_string(options.epoch) + " is known here with other members, ranks or shards",
                  {}};
  return rank;
}

Status admit(Connection& connection, const MeshOptions& options, const MeshSegment& segment,
             std::vector<UniqueFd>& members, const Patience& patience) {
  const Result<Hello> hello = welcome(connection, options.key, patience);
  if (!hello.ok()) return hello.status();
  const Result<uint32_t> rank = judge(options, hello.value());
  if (!rank.ok()) return rank.status();
  if (members[rank.value()]) return {Code::Refused, namesOf({rank.value()}) + " is taken", {}};
  Status sent = connection.send({FrameType::Grant, {}, 0, segment.fd()}, patience);
  if (sent.ok()) members[rank.value()] = connection.takeSocket();
  return sent;
}

std::vector<uint32_t> absentees(const std::vector<UniqueFd>& members) {
  std::vector<uint32_t> absent;
  for (uint32_t rank = 1; rank < members.size(); rank++)
    if (!members[rank]) absent.push_back(rank);
  return absent;
}

}  // namespace

Status checkOptions(const MeshOptions& options) {
  const auto outOfRange = [](const std::string& what, uint64_t value, uint64_t max) {
    return Status{Code::InvalidArgument,
                  what + " is " + std::to_string(value) + ", allowed are 1 to " + std::to_string(max),
                  {}};
  };
  const size_t worldSize = options.members.size();
  if (worldSize < 1 || worldSize > kWorldSizeMax) return outOfRange("the number of members", worldSize, kWorldSizeMax);
  if (options.rank >= worldSize) return {Code::InvalidArgument, "the rank is not below the number of members", {}};
  if (options.shards < 1 || options.shards > kShardsMax) return outOfRange("shards", options.shards, kShardsMax);
  if (options.shardElements < 1 || options.shardElements > kShardElementsMax)
    return outOfRange("shardElements", options.shardElements, kShardElementsMax);
  return {};
}

Result<std::vector<UniqueFd>> gatherMembers(const MeshOptions& options, const MeshSegment& segment,
                                            const Patience& patience) {
  std::vector<UniqueFd> members(options.members.size());
  if (members.size() == 1) return members;
  const Result<std::string> path = meetingPoint(options);
  if (!path.ok()) return path.status();
  Result<UnixListener> listener = UnixListener::open(path.value());
  if (!listener.ok()) return listener.status();
  for (;;) {
    const std::vector<uint32_t> absent = absentees(members);
    if (absent.empty()) return members;
    for (uint32_t rank = 1; rank < members.size(); rank++)
      if (members[rank] && hasHungUp(members[rank].get()))
        return Status{Code::PeerLost, namesOf({rank}) + " left while the mesh was forming", {rank}};
    const Status ready = awaitReady(listener.value().fd(), POLLIN, patience.within(kSlice));
    if (ready.code == Code::Timeout && !patience.deadline.passed()) continue;
    if (ready.code == Code::Timeout) return Status{Code::Timeout, namesOf(absent) + " did not join in time", absent};
    if (!ready.ok()) return ready;
    Result<UniqueFd> socket = acceptFrom(listener.value().fd(), Address::Kind::Unix);
    if (!socket.ok()) continue;
    Connection connection(std::move(socket.value()));
    const Patience greeting = patience.within(kGreeting);
    const Status admitted = admit(connection, options, segment, members, greeting);
    if (!admitted.ok()) connection.refuse(admitted, greeting);
  }
}

Result<JoinedSegment> joinSegment(const MeshOptions& options, const Patience& patience) {
  const Result<std::string> path = meetingPoint(options);
  if (!path.ok()) return path.status();
  const Hello hello{Purpose::Mesh, options.job, options.members[options.rank], encodeClaim(options, options.rank)};
  for (;;) {
    const auto attempt = [&]() -> Result<JoinedSegment> {
      Result<UniqueFd> socket = connectTo({Address::Kind::Unix, path.value()}, patience);
      if (!socket.ok()) return socket.status();
      Connection connection(std::move(socket.value()));
      if (Status greeted = greet(connection, options.key, hello, patience); !greeted.ok()) return greeted;
      const Result<Bytes> grant = connection.receive(FrameType::Grant, patience);
      if (!grant.ok()) return grant.status();
      const UniqueFd memory = connection.takeFd();
      if (!memory) return Status{Code::Corrupt, "rank 0 sent no memory", {}};
      Result<MeshSegment> segment = MeshSegment::attach(memory.get(), options.shape());
      if (!segment.ok()) return segment.status();
      return JoinedSegment{std::move(segment.value()), connection.takeSocket()};
    };
    Result<JoinedSegment> joined = attempt();
    // Nobody there yet, or gone before it answered: rank 0 may still come.
    if (joined.ok() || joined.status().code != Code::Unreachable) {
      if (joined.status().code == Code::Timeout) return Status{Code::Timeout, "rank 0 did not answer in time", {0}};
      return joined;
    }
    if (Status slept = pause(kRetry, patience); slept.code == Code::Timeout)
      return Status{Code::Timeout, "rank 0 did not come in time (" + joined.status().message + ")", {0}};
    else if (!slept.ok())
      return slept;
  }
}

}  // namespace muster
