#include "core/mesh_formation.h"

#include <poll.h>

#include <algorithm>

#include "core/activity.h"
#include "core/mesh_listener.h"
#include "core/mesh_watch.h"
#include "core/socket.h"
#include "core/version_store.h"
#include "core/xxh64.h"

namespace muster {

namespace {

// The name of a forming mesh. It holds the epoch: builds of different epochs never meet.
Result<std::string> meetingPoint(const MeshOptions& options) {
  const std::string host = options.places.empty() ? "" : "\n" + options.places[options.rank].host;
  return socketPath(options.socketDir, 'm', options.job + "\n" + std::to_string(options.meeting()) + host);
}

Status admit(Connection& connection, const MeshOptions& options, const MeshSegment& segment,
             std::vector<UniqueFd>& members, const Patience& patience) {
  const Result<Hello> hello = welcome(connection, options.key, patience);
  if (!hello.ok()) return hello.status();
  const Result<uint32_t> rank = judgeClaim(options, hello.value());
  if (!rank.ok()) return rank.status();
  if (members[rank.value()]) return {Code::Refused, namesOf({rank.value()}) + " is taken", {}};
  Status sent = connection.send({FrameType::Grant, {}, 0, segment.fd()}, patience);
  if (sent.ok()) members[rank.value()] = connection.takeSocket();
  return sent;
}

std::vector<uint32_t> absentees(const MeshOptions& options, const std::vector<UniqueFd>& members) {
  std::vector<uint32_t> absent;
  for (const uint32_t rank : options.neighboursOf(options.rank))
    if (rank != options.rank && !members[rank]) absent.push_back(rank);
  return absent;
}

// What this member says to a leader.
Hello helloOf(const MeshOptions& options) {
  return {Purpose::Mesh, options.job, options.members[options.rank], encodeClaim(options, options.rank)};
}

// One call at the leader of another host. Code::Unreachable when it does not form this mesh yet.
Result<Connection> callLeader(const MeshOptions& options, const Address& address, const Patience& patience) {
  Result<Granted> granted = callFor(address, options.key, helloOf(options), patience);
  if (!granted.ok()) return granted.status();
  Connection& connection = granted.value().connection;
  if (Status sent = connection.send({FrameType::Accept}, patience); !sent.ok()) return sent;
  return std::move(connection);
}

// Ok while those that were met are there.
Status stillThere(const std::vector<OtherHost>& met) {
  for (const OtherHost& each : met)
    if (hasHungUp(each.connection.fd())) return {Code::PeerLost, namesOf({each.leader}) + " left while the mesh was forming", {each.leader}};
  return {};
}

Result<OtherHost> callUntilThere(const MeshOptions& options, uint32_t leader, const std::vector<OtherHost>& met, const Patience& patience) {
  const Result<Address> address = parseAddress(options.places[leader].address);
  if (!address.ok()) return address.status();
  for (;;) {
    if (Status there = stillThere(met); !there.ok()) return there;
    Result<Connection> called = callLeader(options, address.value(), patience.within(options.call));
    if (called.ok()) return OtherHost{leader, std::move(called.value())};
    const Code code = called.status().code;
    const bool later = code == Code::Unreachable || code == Code::Timeout;
    if (!later) return called.status();
    if (code == Code::Timeout) activity().note(Event::Retry, options.places[leader].host, namesOf({leader}) + " did not take the call; it is made again");
    if (Status slept = pause(kLook, patience); slept.code == Code::Timeout)
      return Status{Code::Timeout, namesOf({leader}) + " did not answer in time (" + called.status().message + ")", {leader}};
    else if (!slept.ok())
      return slept;
  }
}

// Lets the leaders of later hosts in.
class Reception {
 public:
  Reception(const MeshOptions& options, std::vector<uint32_t> absent) : options_(options), absent_(std::move(absent)) {}

  const std::vector<uint32_t>& absent() const { return absent_; }
  // One caller, when one comes within a moment, and who of those invited has answered.
  Status serve(std::vector<OtherHost>& met, const Patience& patience);

 private:
  Status invite(MeshListener::Caller& caller, const Patience& patience);
  void seat(std::vector<OtherHost>& met, const Patience& patience);

  const MeshOptions& options_;
  std::vector<uint32_t> absent_;
  std::vector<OtherHost> invited_;  // one call of each: the last
};

Status Reception::invite(MeshListener::Caller& caller, const Patience& patience) {
  const Result<uint32_t> rank = judgeClaim(options_, caller.hello);
  if (!rank.ok()) return rank.status();
  if (std::ranges::find(absent_, rank.value()) == absent_.end())
    return Status{Code::Refused, namesOf({rank.value()}) + " is not expected here", {}};
  if (Status sent = caller.connection.send({FrameType::Grant}, patience); !sent.ok()) return sent;
  // Most answer at once. Who does not is looked at again with the next caller.
  [[maybe_unused]] const Status ready = awaitReady(caller.connection.fd(), POLLIN, patience.within(kLook));
  std::erase_if(invited_, [&](const OtherHost& each) { return each.leader == rank.value(); });
  invited_.push_back({rank.value(), std::move(caller.connection)});
  return {};
}

void Reception::seat(std::vector<OtherHost>& met, const Patience& patience) {
  std::erase_if(invited_, [&](OtherHost& each) {
    if (!awaitReady(each.connection.fd(), POLLIN, patience.within(Milliseconds(0))).ok()) return false;
    if (!each.connection.receive(FrameType::Accept, patience.within(network().hostSilence), 0).ok()) return true;  // gave up; it calls again
    std::erase(absent_, each.leader);
    met.push_back(std::move(each));
    return true;
  });
}

Status Reception::serve(std::vector<OtherHost>& met, const Patience& patience) {
  Result<MeshListener::Caller> caller = options_.store->listener().take(options_.meeting(), patience.within(kLook));
  if (caller.ok()) {
    const Status invited = invite(caller.value(), patience.within(network().hostSilence));
    if (!invited.ok()) caller.value().connection.refuse(invited, patience.within(network().hostSilence));
  } else if (caller.status().code != Code::Timeout) {
    return caller.status();
  }
  seat(met, patience);
  if (absent_.empty()) return {};
  if (patience.deadline.passed()) return {Code::Timeout, namesOf(absent_) + " did not call in time", absent_};
  return stillThere(met);
}

}  // namespace

uint64_t MeshOptions::meeting() const {
  return group.empty() ? epoch : xxh64(ByteWriter().number(epoch).text(group).bytes());
}

Bytes encodeClaim(const MeshOptions& options, uint32_t rank) {
  ByteWriter members;
  for (const std::string& member : options.members) members.text(member);
  if (options.group.empty()) members.text(kSumOrder);
  ByteWriter out;
  out.number(options.meeting()).number(options.shards).number(options.shardElements);
  return out.number(xxh64(members.bytes())).number(rank).bytes();
}

Result<uint32_t> judgeClaim(const MeshOptions& options, const Hello& hello) {
  if (hello.purpose != Purpose::Mesh) return Status{Code::Refused, "this is a forming mesh", {}};
  if (hello.job != options.job) return Status{Code::Refused, "this mesh belongs to another job", {}};
  ByteReader in(hello.body);
  in.raw(encodeClaim(options, 0).size() - sizeof(uint32_t));
  const auto rank = in.number<uint32_t>();
  const bool known = rank != options.rank && rank < options.members.size();
  const bool fits = in.finished() && known && hello.body == encodeClaim(options, rank);
  if (!fits || hello.member != options.members[rank])
    return Status{Code::Refused,
                  "epoch " + std::to_string(options.epoch) + " is known here with other members, ranks or shards, or its sums have another order",
                  {}};
  return rank;
}

uint32_t MeshOptions::leaderOf(uint32_t member) const {
  if (places.empty()) return 0;
  const auto at = std::ranges::find(places, places[member].host, &MeshPlace::host);
  return static_cast<uint32_t>(at - places.begin());
}

std::vector<uint32_t> MeshOptions::neighboursOf(uint32_t member) const {
  std::vector<uint32_t> ranks;
  for (uint32_t each = 0; each < members.size(); each++)
    if (leaderOf(each) == leaderOf(member)) ranks.push_back(each);
  return ranks;
}

std::vector<ShardPart> MeshOptions::residents() const {
  const std::vector<uint32_t> here = neighboursOf(rank);
  const auto index = static_cast<size_t>(std::ranges::find(here, rank) - here.begin());
  std::vector<ShardPart> parts{{shards, sliceOf(shardElements, index, here.size())}};
  if (!group.empty()) {
    parts.push_back({rank, {0, shardElements}});
    return parts;
  }
  const Range slice = sliceOf(shardElements, rank, members.size());
  for (uint32_t shard = 0; shard < shards; shard++) parts.push_back({shard, slice});
  return parts;
}

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
  if (!options.places.empty() && options.places.size() != worldSize)
    return {Code::InvalidArgument, "the places of " + std::to_string(options.places.size()) + " members are given", {}};
  if (!options.places.empty() && options.store == nullptr)
    return {Code::InvalidArgument, "a mesh over several hosts needs a version store to meet at", {}};
  return {};
}

Result<std::vector<UniqueFd>> gatherMembers(const MeshOptions& options, const MeshSegment& segment,
                                            const Patience& patience) {
  std::vector<UniqueFd> members(options.members.size());
  if (absentees(options, members).empty()) return members;
  const Result<std::string> path = meetingPoint(options);
  if (!path.ok()) return path.status();
  Result<UnixListener> listener = UnixListener::open(path.value());
  if (!listener.ok()) return listener.status();
  for (;;) {
    const std::vector<uint32_t> absent = absentees(options, members);
    if (absent.empty()) return members;
    for (uint32_t rank = 0; rank < members.size(); rank++)
      if (members[rank] && hasHungUp(members[rank].get()))
        return Status{Code::PeerLost, namesOf({rank}) + " left while the mesh was forming", {rank}};
    const Status ready = awaitReady(listener.value().fd(), POLLIN, patience.within(kLook));
    if (ready.code == Code::Timeout && !patience.deadline.passed()) continue;
    if (ready.code == Code::Timeout) return Status{Code::Timeout, namesOf(absent) + " did not join in time", absent};
    if (!ready.ok()) return ready;
    Result<UniqueFd> socket = acceptPatiently(listener.value().fd(), Address::Kind::Unix, patience);
    if (!socket.ok()) continue;
    Connection connection(std::move(socket.value()));
    const Patience greeting = patience.within(network().hostSilence);
    const Status admitted = admit(connection, options, segment, members, greeting);
    if (!admitted.ok()) connection.refuse(admitted, greeting);
  }
}

Result<JoinedSegment> joinSegment(const MeshOptions& options, const Patience& patience) {
  const Result<std::string> path = meetingPoint(options);
  if (!path.ok()) return path.status();
  const uint32_t leader = options.leaderOf(options.rank);
  const Hello hello = helloOf(options);
  for (;;) {
    const auto attempt = [&]() -> Result<JoinedSegment> {
      Result<Granted> granted = callFor({Address::Kind::Unix, path.value()}, options.key, hello, patience);
      if (!granted.ok()) return granted.status();
      Connection& connection = granted.value().connection;
      const UniqueFd memory = connection.takeFd();
      if (!memory) return Status{Code::Corrupt, namesOf({leader}) + " sent no memory", {}};
      Result<MeshSegment> segment = MeshSegment::attach(memory.get(), options.shape());
      if (!segment.ok()) return segment.status();
      return JoinedSegment{std::move(segment.value()), connection.takeSocket()};
    };
    Result<JoinedSegment> joined = attempt();
    // Nobody there yet, or gone before it answered: the leader may still come.
    if (joined.ok() || joined.status().code != Code::Unreachable) {
      if (joined.status().code == Code::Timeout) 
        return Status{Code::Timeout, namesOf({leader}) + " did not answer in time", {leader}};
      return joined;
    }
    if (Status slept = pause(kJoinAgain, patience); slept.code == Code::Timeout)
      return Status{Code::Timeout, namesOf({leader}) + " did not come in time (" + joined.status().message + ")", {leader}};
    else if (!slept.ok())
      return slept;
  }
}

Result<std::vector<OtherHost>> meetLeaders(const MeshOptions& options, const Patience& patience) {
  std::vector<OtherHost> others;
  std::vector<uint32_t> absent;  // leaders that call us
  for (uint32_t rank = 0; rank < options.members.size(); rank++) {
    if (options.leaderOf(rank) != rank || rank == options.rank) continue;
    if (rank > options.rank) {
      absent.push_back(rank);
      continue;
    }
    Result<OtherHost> called = callUntilThere(options, rank, others, patience);
    if (!called.ok()) return called.status();
    others.push_back(std::move(called.value()));
  }
  Reception reception(options, std::move(absent));
  while (!reception.absent().empty())
    if (Status served = reception.serve(others, patience); !served.ok()) return served;
  return others;
}

}  // namespace muster
