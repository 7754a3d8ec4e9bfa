// Pulls over a network that really loses packets, and from a holder that really gets little time. Both want root: the network is a namespace of the
// test's own, in which nftables drops one packet in a hundred; the time is a CPU quota of a control group, or else what SIGSTOP leaves.
#include <sched.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <thread>

#include "check.h"
#include "core/activity.h"
#include "core/block_digest.h"
#include "core/pull.h"
#include "core/version_store.h"
#include "link.h"
#include "player.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr VersionId kId{1, 7};
constexpr size_t kBytes = 3'000'000;

Bytes weightsOf(size_t bytes) {
  Bytes weights(bytes);
  for (size_t i = 0; i < bytes; i++) weights[i] = static_cast<uint8_t>(i * 2654435761u >> 7);
  return weights;
}

// What a command writes; nullopt when it fails.
std::optional<std::string> outputOf(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  char text[512];
  while (std::fgets(text, sizeof text, pipe) != nullptr) output += text;
  return ::pclose(pipe) == 0 ? std::optional(output) : std::nullopt;
}

// Moves this thread, and those that it will start, into a network of its own whose loopback loses packets of TCP. Why it cannot, else empty.
std::string enterLossyNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) return std::string("no network namespace: ") + std::strerror(errno);
  // One packet for each segment, as on a wire: a dropped one is not sixty.
  if (!outputOf("ip link set lo up mtu 1500 && ip link set lo gso_max_segs 1")) return "no iproute2 that sets up a network";
  // First packets are spared: the proxy of a link makes a call of its own, and the second for which a lost one holds that up would look like a holder
  // that is silent, while a reader's own call lasts as long as it must. links_test has a lost first packet.
  const bool drops = outputOf("nft add table ip loss").has_value() &&
                     outputOf("nft 'add chain ip loss in { type filter hook input priority 0; }'").has_value() &&
                     outputOf("nft 'add rule ip loss in tcp flags & syn == 0 numgen random mod 100 < 1 counter drop'").has_value();
  return drops ? "" : "no nftables that drops by chance";
}

long dropped() {
  const std::string rules = outputOf("nft list table ip loss").value_or("");
  const size_t at = rules.find("packets ");
  return at == std::string::npos ? 0 : std::atol(rules.c_str() + at + 8);
}

Result<Pulled> pulled(const std::vector<std::string>& from, std::span<uint8_t> into) {
  const Abort never;
  PullOptions options{keyOf("key"), "job", "reader", {}, kId, {{"weights", into.size(), digestOf(weightsOf(into.size()))}}, nullptr};
  for (const std::string& each : from) options.holders.push_back(parseAddress(each).value());
  options.into = {into};
  return pull(options, patienceOf(never, 30'000));
}

std::shared_ptr<VersionStore> storeOf(const TemporaryFolder& folder, size_t bytes) {
  const Abort never;
  auto store = VersionStore::open({keyOf("key"), "job", "holder", folder.path(), std::string("127.0.0.1"), bytes, 2}).value();
  CHECK(store->publish(kId, {{"weights", weightsOf(bytes)}}, never).ok());
  return store;
}

// So much of one core for a process: a fifth.
class Throttle {
 public:
  explicit Throttle(const Player& player) : player_(player) {
    const std::string name = "/muster-test-" + std::to_string(player.pid());
    if (enter("/sys/fs/cgroup/cpu" + name, "cpu.cfs_quota_us", "20000") || enter("/sys/fs/cgroup" + name, "cpu.max", "20000 100000")) return;
    how_ = "SIGSTOP for 80 of 100 ms, because no control group can be made";
    stopper_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        player_.signal(SIGSTOP);
        std::this_thread::sleep_for(Milliseconds(80));
        player_.signal(SIGCONT);
        std::this_thread::sleep_for(Milliseconds(20));
      }
    });
  }
  ~Throttle() {
    stopper_ = {};
    if (group_.empty()) return;
    // A process can only be taken out by giving it to another group.
    std::ofstream(group_.substr(0, group_.rfind('/')) + "/cgroup.procs") << player_.pid() << std::flush;
    ::rmdir(group_.c_str());
  }
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;
  const std::string& how() const { return how_; }

 private:
  bool enter(const std::string& group, const std::string& file, const std::string& quota) {
    if (::mkdir(group.c_str(), 0755) != 0) return false;
    const bool set = bool(std::ofstream(group + "/" + file, std::ios::in) << quota << std::flush) &&
                     bool(std::ofstream(group + "/cgroup.procs") << player_.pid() << std::flush);
    if (!set) ::rmdir(group.c_str());
    if (set) group_ = group, how_ = "quota of " + group + "/" + file;
    return set;
  }

  const Player& player_;
  std::string group_;
  std::string how_;
  std::jthread stopper_;
};

// Forked before anything has threads; it opens its store when it is told.
Player::Role roleIn(const TemporaryFolder& folder) {
  return [&folder, store = std::shared_ptr<VersionStore>()](const std::string&) mutable {
    if (!store) store = storeOf(folder, kBytes);
    return store->addresses()[1];
  };
}

}  // namespace

TEST("a holder with a fifth of a core is not left, 0, 20 and 200 ms away") {
  if (::geteuid() != 0) return void(std::printf("skipped: a CPU quota wants root\n"));
#if defined(__SANITIZE_THREAD__)
  return void(std::printf("skipped: the thread sanitizer does not follow a fork into threads\n"));
#endif
  const TemporaryFolder itsFolder;
  Player throttled("holder", [&itsFolder] { return roleIn(itsFolder); });
  throttled.tell("open");
  while (!throttled.answer() && !throttled.lost()) {
    CHECK(awaitReady(throttled.line(), POLLIN, patienceOf(Abort())).ok());
    throttled.look();
  }
  const std::string address = throttled.answer().value_or("");
  const TemporaryFolder folder;
  const auto other = storeOf(folder, kBytes);
  const Throttle throttle(throttled);
  std::printf("throttled by %s\n", throttle.how().c_str());
  for (const int roundTrip : {0, 20, 200}) {
    bool stayed = false;
    // On a machine with much other work a fifth of a core may be nothing at all for longer than any network explains.
    for (int attempt = 0; attempt < 3 && !stayed; attempt++) {
      const Link far(address, {Milliseconds(roundTrip)});
      Bytes into(kBytes);
      const auto got = pulled({far.address(), other->addresses()[1]}, into);
      REQUIRE_OK(got);
      CHECK(into == weightsOf(kBytes));
      stayed = got.value().from == far.address();
    }
    CHECK(stayed);
  }
}

TEST("a version comes whole over a network that loses one packet in a hundred, 0, 20 and 200 ms away") {
  const std::string why = enterLossyNetwork();
  if (!why.empty()) return void(std::printf("skipped: %s\n", why.c_str()));
  const TemporaryFolder folder, otherFolder;
  const auto store = storeOf(folder, kBytes), other = storeOf(otherFolder, kBytes);
  for (const int roundTrip : {0, 20, 200}) {
    const long before = dropped();
    const uint64_t failOvers = activity().count(Event::FailOver), retries = activity().count(Event::Retry);
    const int pulls = roundTrip == 200 ? 1 : 2;
    for (int i = 0; i < pulls; i++) {
      const Link first(store->addresses()[1], {Milliseconds(roundTrip)}), second(other->addresses()[1], {Milliseconds(roundTrip)});
      Bytes into(kBytes);
      REQUIRE_OK(pulled({first.address(), second.address()}, into));
      CHECK(into == weightsOf(kBytes));
      Bytes again(kBytes);
      REQUIRE_OK(pulled({first.address()}, again));
      CHECK(again == weightsOf(kBytes));
    }
    std::printf("%d ms: %ld packets lost in %d pulls, %llu fail-overs, %llu retries\n", roundTrip, dropped() - before, 2 * pulls,
                static_cast<unsigned long long>(activity().count(Event::FailOver) - failOvers),
                static_cast<unsigned long long>(activity().count(Event::Retry) - retries));
    CHECK(dropped() > before);
  }
}
