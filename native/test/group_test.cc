// Groups over shared memory, and over a ring of hosts that are names here, so that they share nothing; deaths are real ones.
#include <signal.h>
#include <sys/wait.h>

#include "collectives_suite.h"
#include "core/group.h"
#include "core/version_store.h"

using namespace muster;
using namespace muster::test;

namespace {

MeshOptions optionsOf(const std::string& folder, uint32_t rank, uint32_t worldSize) {
  MeshOptions options;
  options.key = keyOf("key");
  options.job = "job";
  options.epoch = 1;
  options.rank = rank;
  options.socketDir = folder;
  options.group = "group";
  for (uint32_t r = 0; r < worldSize; r++) options.members.push_back("member-" + std::to_string(r));
  return options;
}

Ranks openRanks(const std::vector<MeshOptions>& options) {
  Ranks ranks(options.size());
  onRanks(static_cast<uint32_t>(options.size()), [&](uint32_t rank) {
    const Abort never;
    const auto group = Group::open(options[rank], kCapacity, patienceOf(never));
    REQUIRE_OK(group);
    ranks[rank] = group.value();
  });
  for (const auto& each : ranks)
    if (!each) return {};
  return ranks;
}

Ranks onOneHost(uint32_t worldSize) {
  const TemporaryFolder folder;
  std::vector<MeshOptions> options;
  for (uint32_t rank = 0; rank < worldSize; rank++) options.push_back(optionsOf(folder.path(), rank, worldSize));
  return openRanks(options);
}

// Rank r on host r % hosts: neighbours in the ranks are apart.
Ranks onHosts(uint32_t worldSize, uint32_t hosts) {
  const TemporaryFolder folder;
  std::vector<std::shared_ptr<VersionStore>> stores;
  for (uint32_t rank = 0; rank < worldSize; rank++)
    stores.push_back(VersionStore::open({keyOf("key"), "job", "member-" + std::to_string(rank), folder.path(),
                                         std::string("127.0.0.1"), 1024, 2})
                         .value());
  std::vector<MeshOptions> options;
  for (uint32_t rank = 0; rank < worldSize; rank++) {
    options.push_back(optionsOf(folder.path(), rank, worldSize));
    options.back().store = stores[rank];
    if (worldSize > 1)
      for (uint32_t r = 0; r < worldSize; r++)
        options.back().places.push_back({"host-" + std::to_string(r % hosts), stores[r]->addresses()[1]});
  }
  return openRanks(options);
}

}  // namespace

#if !defined(__SANITIZE_THREAD__)  // the thread sanitizer does not follow a fork into threads
TEST("survivors of a SIGKILL or a freeze know who it was, and their inputs are as they were") {
  for (const int sent : {SIGKILL, SIGSTOP}) {
    const TemporaryFolder folder;
    int ready[2];
    CHECK(::pipe(ready) == 0);
    const pid_t victim = ::fork();
    const Abort never;
    if (victim == 0) {
      const auto group = Group::open(optionsOf(folder.path(), 2, 3), kCapacity, patienceOf(never));
      const bool in = group.ok() && group.value()->run({}, patienceOf(never)).ok();
      if (!in || ::write(ready[1], "y", 1) != 1) ::_exit(1);
      ::pause();
    }
    onRanks(2, [&](uint32_t rank) {
      const auto group = Group::open(optionsOf(folder.path(), rank, 3), kCapacity, patienceOf(never));
      REQUIRE_OK(group);
      fill(*group.value(), inputOf(DType::F32, rank, 70'001));
      REQUIRE_OK(group.value()->run({}, patienceOf(never)));
      char done = 'n';
      if (rank == 0) CHECK(::read(ready[0], &done, 1) == 1 && done == 'y' && ::kill(victim, sent) == 0);
      const auto before = Clock::now();
      const int patienceMs = sent == SIGKILL ? 10'000 : 300;
      const Status lost =
          group.value()->run(operationOf(Operation::Kind::AllReduce, DType::F32, 70'001), patienceOf(never, patienceMs));
      const bool named = lost.ranks == std::vector<uint32_t>{2};
      if (sent == SIGKILL) CHECK(lost.code == Code::PeerLost && named && Clock::now() - before < Milliseconds(1'000));
      else CHECK((lost.code == Code::Timeout && named) || lost.code == Code::PeerLost);
      const auto bytes = inputOf(DType::F32, rank, 70'001);
      CHECK(std::equal(bytes.begin(), bytes.end(), group.value()->input().begin()));
    });
    ::kill(victim, SIGKILL);
    CHECK(::waitpid(victim, nullptr, 0) == victim);
    for (const int fd : ready) ::close(fd);
  }
}
#endif

TEST("a group on one host complies") { runComplianceSuite({"one host", onOneHost}); }

TEST("a group on two hosts complies") {
  runComplianceSuite({"two hosts", [](uint32_t worldSize) { return onHosts(worldSize, 2); }});
}

TEST("a group with every rank on a host of its own complies") {
  runComplianceSuite({"hosts apart", [](uint32_t worldSize) { return onHosts(worldSize, worldSize); }});
}

TEST("a group and a gradient mesh of the same epoch do not meet") {
  const TemporaryFolder folder;
  const Abort never;
  MeshOptions mesh = optionsOf(folder.path(), 0, 2);
  mesh.group.clear();
  mesh.shards = 1;
  mesh.shardElements = 1;
  std::thread first([&] { CHECK(MeshMember::open(mesh, nullptr, patienceOf(never, 300)).status().code == Code::Timeout); });
  const auto second = Group::open(optionsOf(folder.path(), 1, 2), kCapacity, patienceOf(never, 200));
  CHECK(second.status().code == Code::Timeout && second.status().ranks == std::vector<uint32_t>{0});
  first.join();
}
