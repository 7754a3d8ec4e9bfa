// Meshes over several hosts: each "host" of these tests is a name, so its ranks share a segment with nobody else.
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "core/mesh.h"
#include "core/version_store.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr uint32_t kShards = 8;
constexpr size_t kElements = 70'001;

// A rank's place: which host it is on, and the store at which that host is met.
struct World {
  explicit World(const std::vector<std::string>& of) : hosts(of) {
    for (uint32_t rank = 0; rank < hosts.size(); rank++)
      stores.push_back(VersionStore::open({keyOf("key"), "job", "member-" + std::to_string(rank), folder.path(),
                                           std::string("127.0.0.1"), 1024, 2})
                           .value());
  }
  MeshOptions optionsOf(uint32_t rank, uint64_t epoch = 1) const {
    MeshOptions options;
    options.key = keyOf("key");
    options.job = "job";
    options.epoch = epoch;
    options.rank = rank;
    options.socketDir = folder.path();
    options.shards = kShards;
    options.shardElements = kElements;
    for (uint32_t r = 0; r < hosts.size(); r++) {
      options.members.push_back("member-" + std::to_string(r));
      options.places.push_back({hosts[r], stores[r]->addresses()[1]});
    }
    options.store = stores[rank];
    return options;
  }
  uint32_t size() const { return static_cast<uint32_t>(hosts.size()); }

  TemporaryFolder folder;
  std::vector<std::string> hosts;
  std::vector<std::shared_ptr<VersionStore>> stores;
};

float valueOf(uint64_t op, uint32_t shard, size_t i) {
  uint64_t bits = (op * 7919 + shard * 104'729 + i) * 0x9E37'79B9'7F4A'7C15;
  bits ^= bits >> 29;
  return static_cast<float>(static_cast<int32_t>(bits)) * (bits >> 60 < 8 ? 1e-3f : 1e-7f);
}

std::vector<float> sumOf(uint64_t op) {
  std::vector<float> sum(kElements);
  for (size_t i = 0; i < kElements; i++) sum[i] = alongTree(0, kShards, [&](uint32_t s) { return valueOf(op, s, i); });
  return sum;
}

// Neighbours to one rank, as trainers do; then apart, so that no rank has a whole node of the tree; then this way and that.
uint32_t writerOf(uint64_t op, uint32_t shard, uint32_t worldSize) {
  if (op % 3 == 0) return shard * worldSize / kShards;
  if (op % 3 == 1) return shard % worldSize;
  return static_cast<uint32_t>((shard * 5 + op) % 7) % worldSize;
}

std::vector<uint32_t> fillShards(Mesh& mesh, uint64_t op, uint32_t rank, uint32_t worldSize) {
  std::vector<uint32_t> written;
  for (uint32_t s = 0; s < kShards; s++) {
    if (writerOf(op, s, worldSize) != rank) continue;
    const std::span<float> shard = mesh.shard(s);
    for (size_t i = 0; i < kElements; i++) shard[i] = valueOf(op, s, i);
    written.push_back(s);
  }
  return written;
}

bool isSum(const Mesh& mesh, const std::vector<float>& expected) {
  return std::memcmp(mesh.result().data(), expected.data(), kElements * sizeof(float)) == 0;
}

template <class Body>
void onRanks(uint32_t worldSize, Body body) {
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < worldSize; rank++) ranks.emplace_back([=] { body(rank); });
  for (std::thread& rank : ranks) rank.join();
}

std::vector<std::shared_ptr<Mesh>> openAll(const World& world, uint64_t epoch = 1) {
  std::vector<std::shared_ptr<Mesh>> meshes(world.size());
  onRanks(world.size(), [&](uint32_t rank) {
    const Abort never;
    const auto mesh = Mesh::open(world.optionsOf(rank, epoch), patienceOf(never));
    REQUIRE_OK(mesh);
    meshes[rank] = mesh.value();
  });
  return meshes;
}

}  // namespace

TEST("the sum has the same bits whatever ranks are on whatever hosts, op after op") {
  const std::vector<std::vector<std::string>> placements = {
      {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "a", "b", "b"}, {"a", "b", "a", "b"}, {"a", "b", "b", "a", "c"}};
  for (const auto& hosts : placements) {
    const World world(hosts);
    std::atomic<int> good{0};
    onRanks(world.size(), [&](uint32_t rank) {
      const Abort never;
      const auto mesh = Mesh::open(world.optionsOf(rank), patienceOf(never));
      REQUIRE_OK(mesh);
      for (uint64_t op = 0; op < 6; op++) {
        const auto written = fillShards(*mesh.value(), op, rank, world.size());
        REQUIRE_OK(mesh.value()->reduce({op, written}, patienceOf(never)));
        if (isSum(*mesh.value(), sumOf(op))) good++;
        for (const uint32_t s : written)  // inputs stay as they were; another rank may be writing those that are its next
          if (writerOf(op + 1, s, world.size()) == rank) CHECK(mesh.value()->shard(s)[5] == valueOf(op, s, 5));
      }
    });
    CHECK(good == static_cast<int>(6 * world.size()));
  }
}

TEST("of neighbours that a rank wrote only their sum crosses to another host") {
  const World world({"a", "b"});
  onRanks(2, [&](uint32_t rank) {
    const Abort never;
    const auto mesh = Mesh::open(world.optionsOf(rank), patienceOf(never));
    REQUIRE_OK(mesh);
    REQUIRE_OK(mesh.value()->reduce({0, fillShards(*mesh.value(), 0, rank, 2)}, patienceOf(never)));
    CHECK(isSum(*mesh.value(), sumOf(0)));
    const size_t here = sliceOf(kElements, rank, 2).begin + 5;
    const uint32_t theirs = rank == 0 ? 4 : 0;
    CHECK(mesh.value()->shard(theirs)[here] == alongTree(theirs, 4, [&](uint32_t s) { return valueOf(0, s, here); }));
    for (uint32_t other = 1; other < 4; other++) CHECK(mesh.value()->shard(theirs + other)[here] == 0);
  });
}

TEST("a rank that leaves is named on all hosts, and the next epoch forms at once") {
  const World world({"a", "a", "b", "b"});
  std::vector<std::shared_ptr<Mesh>> meshes = openAll(world);
  meshes[3]->close();
  onRanks(3, [&](uint32_t rank) {
    const Abort never;
    const Status reduced = meshes[rank]->reduce({1, fillShards(*meshes[rank], 1, rank, 4)}, patienceOf(never));
    CHECK(reduced.code == Code::PeerLost);
    CHECK(reduced.ranks == std::vector<uint32_t>{3});
  });
  meshes.clear();
  const std::vector<std::shared_ptr<Mesh>> next = openAll(world, 2);
  onRanks(4, [&](uint32_t rank) {
    const Abort never;
    REQUIRE_OK(next[rank]->reduce({1, fillShards(*next[rank], 1, rank, 4)}, patienceOf(never)));
    CHECK(isSum(*next[rank], sumOf(1)));
  });
}

TEST("different ops and shards that nobody wrote are seen by the ranks of all hosts alike") {
  const World world({"a", "b", "a"});
  const std::vector<std::shared_ptr<Mesh>> meshes = openAll(world);
  onRanks(3, [&](uint32_t rank) {
    const Abort never;
    const Status reduced = meshes[rank]->reduce({1, rank == 1 ? std::vector<uint32_t>{1} : std::vector<uint32_t>{}},
                                                patienceOf(never));
    CHECK(reduced.code == Code::Disagreement);
    CHECK(reduced.message == "shard 0 was written by nobody");
  });
}

TEST("a rank that is late is named at the deadline, and an abort ends the wait on one host and is seen on the other") {
  const World world({"a", "b"});
  const std::vector<std::shared_ptr<Mesh>> meshes = openAll(world);
  std::thread aborting([&] {
    std::this_thread::sleep_for(Milliseconds(100));
    meshes[0]->abort("not today");
  });
  const Abort never;
  const Status aborted = meshes[0]->reduce({1, fillShards(*meshes[0], 1, 0, 2)}, patienceOf(never));
  CHECK(aborted.code == Code::Aborted && aborted.message == "not today");
  aborting.join();
  const Status lost = meshes[1]->reduce({1, fillShards(*meshes[1], 1, 1, 2)}, patienceOf(never));
  // Rank 0 had announced its shards before it left: whether it is missed at the first barrier or the second is chance.
  CHECK(lost.code == Code::PeerLost && lost.ranks == std::vector<uint32_t>{0});

  const std::vector<std::shared_ptr<Mesh>> again = openAll(world, 2);
  const Status late = again[0]->reduce({1, fillShards(*again[0], 1, 0, 2)}, patienceOf(never, 200));
  CHECK(late.code == Code::Timeout && late.ranks == std::vector<uint32_t>{1});
}

TEST("a leader that never comes is named at the deadline, and one with another view of the epoch is refused") {
  const World world({"a", "b"});
  const Abort never;
  const auto alone = Mesh::open(world.optionsOf(0), patienceOf(never, 200));
  CHECK(alone.status().code == Code::Timeout && alone.status().ranks == std::vector<uint32_t>{1});
  const auto called = Mesh::open(world.optionsOf(1), patienceOf(never, 200));
  CHECK(called.status().code == Code::Timeout && called.status().ranks == std::vector<uint32_t>{0});

  std::thread first([&] {
    const Abort other;
    CHECK(Mesh::open(world.optionsOf(0, 3), patienceOf(other, 500)).status().code == Code::Timeout);
  });
  MeshOptions strange = world.optionsOf(1, 3);
  strange.shards++;
  CHECK(Mesh::open(strange, patienceOf(never, 5'000)).status().code == Code::Refused);
  first.join();
}

TEST("a host whose process is killed or frozen is noticed by the others, whose shards stay as they were") {
  for (const int sent : {SIGKILL, SIGSTOP}) {
    int addressOut[2], joined[2];
    CHECK(::pipe(addressOut) == 0 && ::pipe(joined) == 0);
    const Abort never;
    const auto optionsOf = [](uint32_t rank, const std::string& address, const TemporaryFolder& folder) {
      MeshOptions options;
      options.key = keyOf("key");
      options.job = "job";
      options.epoch = 1;
      options.rank = rank;
      options.members = {"member-0", "member-1"};
      options.socketDir = folder.path();
      options.shards = kShards;
      options.shardElements = kElements;
      options.places = {{"a", address}, {"b", "tcp:127.0.0.1:1"}};  // rank 1 calls, so nobody needs its address
      const std::string member = options.members[rank];
      options.store = VersionStore::open({options.key, "job", member, folder.path(), std::string("127.0.0.1"), 1024, 2}).value();
      if (rank == 0) options.places[0].address = options.store->addresses()[1];
      return options;
    };
    const pid_t child = ::fork();  // before this process has threads
    if (child == 0) {
      char address[64]{};
      if (::read(addressOut[0], address, sizeof address - 1) <= 0) ::_exit(1);
      const TemporaryFolder folder;
      const auto mesh = Mesh::open(optionsOf(1, address, folder), patienceOf(never));
      const char done = mesh.ok() ? 'y' : 'n';
      if (::write(joined[1], &done, 1) != 1) ::_exit(1);
      ::pause();
    }
    {
      const TemporaryFolder folder;
      const MeshOptions options = optionsOf(0, "", folder);
      const std::string& address = options.places[0].address;
      CHECK(::write(addressOut[1], address.data(), address.size()) == static_cast<ssize_t>(address.size()));
      const auto mesh = Mesh::open(options, patienceOf(never));
      REQUIRE_OK(mesh);
      char done = 'n';
      CHECK(::read(joined[0], &done, 1) == 1 && done == 'y');
      ::kill(child, sent);
      const auto startedAt = Clock::now();
      const Status reduced = mesh.value()->reduce({1, fillShards(*mesh.value(), 1, 0, 2)}, patienceOf(never));
      CHECK(reduced.code == Code::PeerLost && reduced.ranks == std::vector<uint32_t>{1});
      CHECK(Clock::now() - startedAt < Milliseconds(3'000));
      CHECK(mesh.value()->shard(0)[7] == valueOf(1, 0, 7));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (const int fd : {addressOut[0], addressOut[1], joined[0], joined[1]}) ::close(fd);
  }
}
