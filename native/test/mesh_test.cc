// Meshes of threads: forming, reducing, disagreeing, leaving; and a real death by SIGKILL in a child process.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "check.h"
#include "core/mesh.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr uint32_t kShards = 8;
constexpr size_t kElements = 5'001;

MeshOptions optionsOf(const std::string& folder, uint32_t rank, uint32_t worldSize, uint64_t epoch = 1) {
  MeshOptions options{keyOf("key"), "job", epoch, rank, {}, folder, kShards, kElements};
  for (uint32_t r = 0; r < worldSize; r++) options.members.push_back("member-" + std::to_string(r));
  return options;
}

// Values of many sizes and both signs, so that another order of addition shows in the bits.
float valueOf(uint64_t op, uint32_t shard, size_t i) {
  uint64_t bits = (op * 7919 + shard * 104'729 + i) * 0x9E37'79B9'7F4A'7C15;
  bits ^= bits >> 29;
  return static_cast<float>(static_cast<int32_t>(bits)) * (bits >> 60 < 8 ? 1e-3f : 1e-7f);
}

// The shards `rank` computes: dealt round.
std::vector<uint32_t> fillShards(Mesh& mesh, uint64_t op, uint32_t rank, uint32_t worldSize) {
  std::vector<uint32_t> written;
  for (uint32_t s = rank; s < kShards; s += worldSize) {
    const std::span<float> shard = mesh.shard(s);
    for (size_t i = 0; i < kElements; i++) shard[i] = valueOf(op, s, i);
    written.push_back(s);
  }
  return written;
}

template <class Body>
void onRanks(uint32_t worldSize, Body body) {
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < worldSize; rank++) ranks.emplace_back([=] { body(rank); });
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace

TEST("a short wait sees what comes at once, and who waits in vain sits out the next waits") {
  ShortWait wait(true);
  CHECK(wait.until([] { return true; }));
  const auto looks = [&] {
    size_t count = 0;
    CHECK(!wait.until([&] { count++; return false; }));
    return count;
  };
  CHECK(looks() > 0);
  for (const size_t expected : {1u, 2u, 4u, 8u}) {
    for (size_t i = 0; i < expected; i++) CHECK(looks() == 0);
    CHECK(looks() > 0);
  }
  for (size_t i = 0; i < 16; i++) CHECK(looks() == 0);
  CHECK(wait.until([] { return true; }));  // and from now on it is worth a look again
  CHECK(looks() > 0);
  CHECK(looks() == 0);
  CHECK(looks() > 0);
  ShortWait never(false);
  CHECK(!never.until([] { return true; }));
}

TEST("the reduction has the same bits for one to four ranks, op after op") {
  std::vector<std::vector<float>> expected(3, std::vector<float>(kElements));
  for (uint64_t op = 0; op < 3; op++)
    for (size_t i = 0; i < kElements; i++) {
      expected[op][i] = alongTree(0, kShards, [&](uint32_t s) { return valueOf(op, s, i); });
    }
  for (uint32_t world = 1; world <= 4; world++) {
    const TemporaryFolder folder;
    std::atomic<int> good{0};
    onRanks(world, [&](uint32_t rank) {
      const Abort never;
      const auto mesh = Mesh::open(optionsOf(folder.path(), rank, world), patienceOf(never));
      REQUIRE_OK(mesh);
      for (uint64_t op = 0; op < 3; op++) {
        const auto written = fillShards(*mesh.value(), op, rank, world);
        REQUIRE_OK(mesh.value()->reduce({op, written}, patienceOf(never)));
        const std::span<float> sum = mesh.value()->result();
        if (std::memcmp(sum.data(), expected[op].data(), kElements * sizeof(float)) == 0) good++;
        CHECK(mesh.value()->shard(rank)[0] == valueOf(op, rank, 0));  // inputs stay as they were
      }
    });
    CHECK(good == static_cast<int>(3 * world));
  }
}

TEST("a shard written twice or by nobody, and different ops, are seen by all ranks alike") {
  for (const int mistake : {0, 1, 2}) {
    const TemporaryFolder folder;
    std::atomic<int> seen{0};
    onRanks(2, [&](uint32_t rank) {
      const Abort never;
      const auto mesh = Mesh::open(optionsOf(folder.path(), rank, 2), patienceOf(never));
      REQUIRE_OK(mesh);
      std::vector<uint32_t> written = fillShards(*mesh.value(), 0, rank, 2);
      if (mistake == 0) written.push_back(0), written.push_back(1);
      if (mistake == 1 && rank == 1) written.pop_back();
      const uint64_t op = mistake == 2 ? rank : 0;
      const Status reduced = mesh.value()->reduce({op, written}, patienceOf(never));
      if (reduced.code == Code::Disagreement) seen++;
      CHECK(mesh.value()->reduce({op, written}, patienceOf(never)).code == Code::Closed);
    });
    CHECK(seen == 2);
  }
}

TEST("a rank that does not come is named, at forming and at reducing") {
  const TemporaryFolder folder;
  const Abort never;
  const auto alone = Mesh::open(optionsOf(folder.path(), 0, 2), patienceOf(never, 50));
  CHECK(alone.status().code == Code::Timeout && alone.status().ranks == std::vector<uint32_t>{1});
  const auto early = Mesh::open(optionsOf(folder.path(), 1, 2), patienceOf(never, 50));
  CHECK(early.status().code == Code::Timeout && early.status().ranks == std::vector<uint32_t>{0});
  onRanks(2, [&](uint32_t rank) {
    const auto mesh = Mesh::open(optionsOf(folder.path(), rank, 2), patienceOf(never));
    REQUIRE_OK(mesh);
    if (rank == 1) {
      std::this_thread::sleep_for(Milliseconds(150));  // the delay is what is tested
      return;
    }
    const Status reduced = mesh.value()->reduce({0, {}}, patienceOf(never, 50));
    CHECK(reduced.code == Code::Timeout && reduced.ranks == std::vector<uint32_t>{1});
  });
}

TEST("members with another view of the epoch, or another key, are refused") {
  const TemporaryFolder folder;
  const Abort never;
  Abort stop;
  std::thread host([&] { CHECK(Mesh::open(optionsOf(folder.path(), 0, 3), patienceOf(stop)).status().code == Code::Aborted); });
  MeshOptions strange = optionsOf(folder.path(), 1, 3);
  strange.members[2] = "somebody else";
  CHECK(Mesh::open(strange, patienceOf(never)).status().code == Code::Refused);
  MeshOptions keyless = optionsOf(folder.path(), 1, 3);
  keyless.key = keyOf("other");
  CHECK(Mesh::open(keyless, patienceOf(never)).status().code == Code::Refused);
  stop.request();
  host.join();
}

TEST("an abort ends a blocked reduce with its reason, and the others see that rank as lost") {
  const TemporaryFolder folder;
  onRanks(3, [&](uint32_t rank) {
    const Abort never;
    const auto mesh = Mesh::open(optionsOf(folder.path(), rank, 3), patienceOf(never));
    REQUIRE_OK(mesh);
    REQUIRE_OK(mesh.value()->reduce({0, fillShards(*mesh.value(), 0, rank, 3)}, patienceOf(never)));
    if (rank == 2) {
      mesh.value()->abort("step was cancelled");
      const Status own = mesh.value()->reduce({1, {}}, patienceOf(never));
      CHECK(own.code == Code::Aborted && own.message == "step was cancelled");
      return;
    }
    const Status reduced = mesh.value()->reduce({1, {}}, patienceOf(never));
    CHECK(reduced.code == Code::PeerLost && reduced.ranks == std::vector<uint32_t>{2});
  });
}

TEST("a rank that arrives and leaves between two looks has arrived") {
  const Result<MeshSegment> segment = MeshSegment::create({1, 2, kShards, kElements});
  REQUIRE_OK(segment);
  MemberRecord& peer = segment.value().member(1);
  peer.state = static_cast<uint32_t>(MemberState::Joined);
  MeshWatch watch(segment.value(), 0);
  const Abort never;
  int looks = 0;
  // The peer comes and goes right after the first look at it.
  const auto arrived = [&](const MemberRecord& member) {
    if (&member != &peer) return true;
    const bool before = peer.phase == 1;
    if (looks++ == 0) {
      peer.phase = 1;
      peer.state = static_cast<uint32_t>(MemberState::Left);
    }
    return before;
  };
  CHECK(watch.await(arrived, patienceOf(never), never).ok());
}

TEST("a rank of another host lives, also when a process of this host died while it looked at its record") {
  const Result<MeshSegment> segment = MeshSegment::create({1, 3, kShards, kElements});
  REQUIRE_OK(segment);
  for (const uint32_t rank : {1U, 2U}) segment.value().member(rank).state = static_cast<uint32_t>(MemberState::Joined);
  const pid_t child = ::fork();
  if (child == 0) {  // holds what a look holds, and what a rank of this host does, and dies
    for (const uint32_t rank : {1U, 2U})
      if (::pthread_mutex_trylock(&segment.value().member(rank).life) != 0) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  MeshWatch watch(segment.value(), 0, {0, 1});
  watch.markDeaths();
  CHECK(segment.value().member(1).state == static_cast<uint32_t>(MemberState::Dead));
  CHECK(segment.value().member(2).state == static_cast<uint32_t>(MemberState::Joined));
}

TEST("closing while a reduce is blocked ends it, and closing twice is harmless") {
  const TemporaryFolder folder;
  const Abort never;
  onRanks(2, [&](uint32_t rank) {
    const auto mesh = Mesh::open(optionsOf(folder.path(), rank, 2), patienceOf(never));
    REQUIRE_OK(mesh);
    if (rank == 1) {
      const Status lost = mesh.value()->reduce({0, {}}, patienceOf(never));
      CHECK(lost.code == Code::PeerLost || lost.code == Code::Disagreement);
      return;
    }
    std::thread reducer([&] { CHECK(!mesh.value()->reduce({0, {}}, patienceOf(never)).ok()); });
    mesh.value()->close();
    mesh.value()->close();
    reducer.join();
  });
}

#if !defined(__SANITIZE_THREAD__)  // the thread sanitizer does not follow a fork into threads
TEST("survivors of a SIGKILL know who died within 200 ms") {
  const TemporaryFolder folder;
  const pid_t victim = ::fork();
  if (victim == 0) {
    const Abort never;
    const auto mesh = Mesh::open(optionsOf(folder.path(), 2, 3), patienceOf(never));
    if (mesh.ok() && mesh.value()->reduce({0, fillShards(*mesh.value(), 0, 2, 3)}, patienceOf(never)).ok())
      ::raise(SIGKILL);
    ::_exit(1);
  }
  onRanks(2, [&](uint32_t rank) {
    const Abort never;
    const auto mesh = Mesh::open(optionsOf(folder.path(), rank, 3), patienceOf(never));
    REQUIRE_OK(mesh);
    REQUIRE_OK(mesh.value()->reduce({0, fillShards(*mesh.value(), 0, rank, 3)}, patienceOf(never)));
    const auto before = Clock::now();
    const Status reduced = mesh.value()->reduce({1, {}}, patienceOf(never));
    CHECK(reduced.code == Code::PeerLost && reduced.ranks == std::vector<uint32_t>{2});
    CHECK(Clock::now() - before < Milliseconds(200));
  });
  int status = 0;
  CHECK(::waitpid(victim, &status, 0) == victim && WIFSIGNALED(status));
}

TEST("survivors of a SIGKILL know who died within a second also while a process that it forked holds its sockets open") {
  const TemporaryFolder folder;
  int end[2];
  CHECK(::pipe(end) == 0);
  const pid_t victim = ::fork();
  if (victim == 0) {
    ::close(end[1]);
    const Abort never;
    const auto mesh = Mesh::open(optionsOf(folder.path(), 2, 3), patienceOf(never));
    if (!mesh.ok() || !mesh.value()->reduce({0, fillShards(*mesh.value(), 0, 2, 3)}, patienceOf(never)).ok()) ::_exit(1);
    const pid_t keeper = ::fork();
    if (keeper == 0) {
      char nothing = 0;
      ::_exit(::read(end[0], &nothing, 1) == 0 ? 0 : 1);  // until the test is over
    }
    if (keeper > 0) ::raise(SIGKILL);
    ::_exit(1);
  }
  ::close(end[0]);
  onRanks(2, [&](uint32_t rank) {
    const Abort never;
    const auto mesh = Mesh::open(optionsOf(folder.path(), rank, 3), patienceOf(never));
    REQUIRE_OK(mesh);
    REQUIRE_OK(mesh.value()->reduce({0, fillShards(*mesh.value(), 0, rank, 3)}, patienceOf(never)));
    const auto before = Clock::now();
    const Status reduced = mesh.value()->reduce({1, {}}, patienceOf(never, 30'000));
    CHECK(reduced.code == Code::PeerLost && reduced.ranks == std::vector<uint32_t>{2});
    CHECK(Clock::now() - before < Milliseconds(1'000));
  });
  int status = 0;
  CHECK(::waitpid(victim, &status, 0) == victim && WIFSIGNALED(status));
  ::close(end[1]);
}
#endif
