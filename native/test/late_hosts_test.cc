// Hosts that come late to a mesh, call again, give up and go: every call by hand here is one that a real leader makes, at a point that the
// test chooses.
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "core/mesh.h"
#include "core/mesh_listener.h"
#include "core/shard_cargo.h"
#include "core/version_store.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr uint32_t kElements = 1'001;

// One rank of a mesh over the hosts named; its place is its index.
struct World {
  explicit World(const std::vector<std::string>& of) : hosts(of) {
    for (size_t rank = 0; rank < hosts.size(); rank++)
      stores.push_back(VersionStore::open({keyOf("key"), "job", "member-" + std::to_string(rank), folder.path(), std::string("127.0.0.1"), 1024, 2}).value());
  }
  MeshOptions optionsOf(uint32_t rank) const {
    MeshOptions options;
    options.key = keyOf("key");
    options.job = "job";
    options.epoch = 1;
    options.rank = rank;
    options.socketDir = folder.path();
    options.shards = size();
    options.shardElements = kElements;
    options.call = Milliseconds(100);  // in the place of two seconds, so that nobody waits for them here
    for (uint32_t each = 0; each < hosts.size(); each++) {
      options.members.push_back("member-" + std::to_string(each));
      options.places.push_back({hosts[each], stores[each]->addresses()[1]});
    }
    options.store = stores[rank];
    return options;
  }
  uint32_t size() const { return static_cast<uint32_t>(hosts.size()); }
  // Until so many calls came in at a leader.
  void awaitCalls(uint32_t leader, uint64_t count) const {
    const Deadline until = Deadline::in(Milliseconds(10'000));
    while (stores[leader]->listener().calls() < count && !until.passed()) std::this_thread::yield();
    CHECK(stores[leader]->listener().calls() >= count);
  }
  // Forms the mesh and reduces once; true when the sum is right.
  bool sums(uint32_t rank) const {
    const Abort never;
    const auto mesh = Mesh::open(optionsOf(rank), patienceOf(never));
    CHECK(mesh.ok());
    if (!mesh.ok()) std::printf("rank %u: %s\n", rank, mesh.status().message.c_str());
    if (!mesh.ok()) return false;
    for (float& each : mesh.value()->shard(rank)) each = static_cast<float>(rank + 1);
    const Status reduced = mesh.value()->reduce({1, {rank}}, patienceOf(never));
    CHECK(reduced.ok());
    return reduced.ok() && mesh.value()->result()[7] == static_cast<float>(size() * (size() + 1) / 2);
  }
  // A call at a leader, as another leader makes it, up to the grant.
  Result<Connection> call(uint32_t leader, uint32_t as) const {
    const Abort never;
    const Patience patience = patienceOf(never);
    const MeshOptions options = optionsOf(as);
    Result<UniqueFd> socket = connectTo(parseAddress(options.places[leader].address).value(), patience);
    if (!socket.ok()) return socket.status();
    Connection connection(std::move(socket.value()));
    const Hello hello{Purpose::Mesh, options.job, options.members[as], encodeClaim(options, as)};
    if (Status greeted = greet(connection, options.key, hello, patience); !greeted.ok()) return greeted;
    return connection;
  }
  // The same, again and again until the leader lets it in and grants.
  Connection granted(uint32_t leader, uint32_t as) const {
    const Abort never;
    for (;;) {
      Result<Connection> called = call(leader, as);
      if (called.ok() && called.value().receive(FrameType::Grant, patienceOf(never), 0).ok()) return std::move(called.value());
      std::this_thread::yield();
    }
  }

  TemporaryFolder folder;
  std::vector<std::string> hosts;
  std::vector<std::shared_ptr<VersionStore>> stores;
};

}  // namespace

TEST("a host whose calls were given up, because a rank of the first host is late, is let in when that has come") {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{"a", "a", "b"}, {"a", "a", "b", "c", "c"}, {"a", "b", "a", "c"}}) {
    const World world(hosts);
    const uint32_t late = world.hosts[1] == "a" ? 1 : 2;
    std::atomic<uint32_t> good{0};
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < world.size(); rank++)
      ranks.emplace_back([&, rank] {
        if (rank == late) world.awaitCalls(0, 6);  // more than one for each host
        good += world.sums(rank);
      });
    for (std::thread& rank : ranks) rank.join();
    CHECK(good == world.size());
  }
}

TEST("a host that comes when others wait for it, and wait for each other, is let in by those before it and lets in those behind it") {
  const World world({"a", "b", "c", "d"});
  std::atomic<uint32_t> good{0};
  std::vector<std::thread> ranks;
  for (const uint32_t rank : {0u, 2u, 3u, 1u})
    ranks.emplace_back([&, rank] {
      if (rank == 1) world.awaitCalls(0, 2);
      good += world.sums(rank);
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(good == 4);
}

TEST("of the calls of one member the last counts, and none that was hung up") {
  const World world({"a", "b", "c"});
  MeshListener& listener = world.stores[0]->listener();
  const Abort never;
  listener.open(1);
  std::optional<Result<Connection>> first = world.call(0, 1);
  world.awaitCalls(0, 1);
  std::optional<Result<Connection>> second = world.call(0, 1);
  world.awaitCalls(0, 2);
  const std::optional<Result<Connection>> other = world.call(0, 2);
  world.awaitCalls(0, 3);
  // The first was closed for the second.
  CHECK(first->value().receive(FrameType::Grant, patienceOf(never)).status().code == Code::Unreachable);
  second.reset();
  const auto taken = listener.take(1, patienceOf(never));
  REQUIRE_OK(taken);
  CHECK(taken.value().hello.member == "member-2");
  CHECK(listener.take(1, patienceOf(never, 30)).status().code == Code::Timeout);
  listener.close(1);
  CHECK(!world.call(0, 1).value().receive(FrameType::Grant, patienceOf(never)).ok());
}

TEST("who gives up after the grant, or freezes there, and calls again, is let in by its last call") {
  const World world({"a", "b"});
  std::atomic<uint32_t> good{0};
  std::thread first([&] { good += world.sums(0); });
  { const Connection givenUp = world.granted(0, 1); }
  const Connection frozen = world.granted(0, 1);
  good += world.sums(1);
  first.join();
  CHECK(good == 2);
}

TEST("who comes and goes while others are awaited is named at once, by those before it and those behind it") {
  const World world({"a", "b", "c"});
  const Abort never;
  std::optional<Status> before;
  std::thread first([&] { before = Mesh::open(world.optionsOf(0), patienceOf(never)).status(); });
  {
    Connection gone = world.granted(0, 1);
    CHECK(gone.send({FrameType::Accept}, patienceOf(never)).ok());
  }
  first.join();
  CHECK(before->code == Code::PeerLost && before->ranks == std::vector<uint32_t>{1});

  world.stores[0]->listener().open(1);
  std::optional<Status> behind;
  std::thread third([&] { behind = Mesh::open(world.optionsOf(2), patienceOf(never)).status(); });
  {
    Result<MeshListener::Caller> caller = world.stores[0]->listener().take(1, patienceOf(never));
    CHECK(caller.ok() && caller.value().connection.send({FrameType::Grant}, patienceOf(never)).ok());
    CHECK(caller.ok() && caller.value().connection.receive(FrameType::Accept, patienceOf(never), 0).ok());
  }
  third.join();
  CHECK(behind->code == Code::PeerLost && behind->ranks == std::vector<uint32_t>{0});
}

TEST("a host that was let in and still meets others may be silent; once it has spoken it may not") {
  const Result<MeshSegment> segment = MeshSegment::create({1, 2, 1, 10});
  REQUIRE_OK(segment);
  int pair[2] = {-1, -1};
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  Connection theirs{UniqueFd(pair[0])};
  MeshWatch watch(segment.value(), 0);
  ShardCargo cargo(segment.value());
  MeshBridge bridge(segment.value(), watch, cargo, {0}, Milliseconds(30));
  bridge.add({1, {1}}, Connection(UniqueFd(pair[1])));
  const auto state = [&] { return static_cast<MemberState>(segment.value().member(1).state.load()); };
  std::this_thread::sleep_for(Milliseconds(150));  // the delay is what is tested
  CHECK(state() == MemberState::Absent);
  const Abort never;
  const Bytes news = ByteWriter().number(uint32_t{1}).number(static_cast<uint32_t>(MemberState::Joined)).number(uint64_t{1}).bytes();
  CHECK(theirs.send({FrameType::News, news}, patienceOf(never)).ok());
  const Deadline until = Deadline::in(Milliseconds(5'000));
  while (state() != MemberState::Dead && !until.passed()) std::this_thread::yield();
  CHECK(state() == MemberState::Dead && segment.value().member(1).phase == 1);
}
