// Groups whose bytes Gloo carries. Without Gloo there is one line that says so.
#include "gloo/gloo_group.h"

#include <signal.h>
#include <sys/wait.h>

#include <random>

#include "collectives_suite.h"
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

}  // namespace

TEST("a host without Gloo is told so") {
  const TemporaryFolder folder;
  const Abort never;
  const auto group = GlooGroup::open(folder.path() + "/muster_gloo.so", optionsOf(folder.path(), 0, 1), 1, patienceOf(never));
  CHECK(group.status().code == Code::Unsupported);
  CHECK(group.status().message.find("built without Gloo") != std::string::npos);
}

#if !defined(MUSTER_GLOO_OBJECT)

TEST("skipped: there was no Gloo when this was built") {}

#else

namespace {

Ranks openRanks(const std::vector<MeshOptions>& options) {
  Ranks ranks(options.size());
  onRanks(static_cast<uint32_t>(options.size()), [&](uint32_t rank) {
    const Abort never;
    const auto group = GlooGroup::open(MUSTER_GLOO_OBJECT, options[rank], kCapacity, patienceOf(never));
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

Ranks onTwoHosts(uint32_t worldSize) {
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
        options.back().places.push_back({"host-" + std::to_string(r % 2), stores[r]->addresses()[1]});
  }
  return openRanks(options);
}

}  // namespace

TEST("a group over gloo on one host complies") { runComplianceSuite({"gloo on one host", onOneHost}); }

TEST("a group over gloo on two hosts complies") { runComplianceSuite({"gloo on two hosts", onTwoHosts}); }

#if !defined(__SANITIZE_THREAD__)  // the thread sanitizer does not follow a fork into threads
TEST("a rank that dies or freezes at any moment of an operation of gloo ends it for all, and inputs are as they were") {
  constexpr uint32_t kSeed = 4;
  std::mt19937 random(kSeed);
  std::printf("seed %u\n", kSeed);
  for (const int sent : {SIGKILL, SIGSTOP, SIGKILL, SIGKILL, SIGSTOP, SIGKILL, SIGKILL, SIGKILL}) {
    const TemporaryFolder folder;
    const Operation sum = operationOf(Operation::Kind::AllReduce, DType::F32, kCapacity / 4);
    const int patienceMs = sent == SIGKILL ? 10'000 : 500;
    const Abort never;
    const pid_t victim = ::fork();
    if (victim == 0) {
      const auto group = GlooGroup::open(MUSTER_GLOO_OBJECT, optionsOf(folder.path(), 2, 3), kCapacity, patienceOf(never));
      if (!group.ok()) std::fprintf(stderr, "the victim did not come: %s\n", group.status().message.c_str());
      while (group.ok() && group.value()->run(sum, patienceOf(never)).ok()) continue;
      ::_exit(1);
    }
    std::atomic<int> opened{0};
    const int before = failures();
    std::atomic<int64_t> sentAt{0};
    const auto now = [] { return Clock::now().time_since_epoch().count(); };
    const auto moment = Milliseconds(random() % 60);  // anywhere in one of several operations
    onRanks(3, [&](uint32_t rank) {
      if (rank == 2) {
        while (opened < 2 && failures() == before) std::this_thread::yield();
        std::this_thread::sleep_for(moment);
        sentAt = now();
        ::kill(victim, sent);
        return;
      }
      const auto group = GlooGroup::open(MUSTER_GLOO_OBJECT, optionsOf(folder.path(), rank, 3), kCapacity, patienceOf(never));
      REQUIRE_OK(group);
      const auto input = inputOf(DType::F32, rank, kCapacity / 4);
      fill(*group.value(), input);
      opened++;
      Status lost;
      while (lost.ok()) lost = group.value()->run(sum, patienceOf(never, patienceMs));
      const std::chrono::nanoseconds took(now() - sentAt);
      std::printf("rank %u after %.0f ms: %s\n", rank, static_cast<double>(took.count()) / 1e6, lost.message.c_str());
      if (sent == SIGKILL) CHECK(lost.code == Code::PeerLost && lost.ranks == std::vector<uint32_t>{2});
      else CHECK(lost.code == Code::Timeout || lost.code == Code::PeerLost);
      CHECK(took < Milliseconds(sent == SIGKILL ? 2'000 : patienceMs + 2'000));
      CHECK(lost.message.find("left behind") == std::string::npos);
      CHECK(std::equal(input.begin(), input.end(), group.value()->input().begin()));
    });
    ::kill(victim, SIGKILL);
    CHECK(::waitpid(victim, nullptr, 0) == victim);
  }
}
#endif

#endif
