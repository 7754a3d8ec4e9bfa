// Long and lossy ways to holders: what the network explains is waited for, and what it does not explain is left for another holder.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "check.h"
#include "core/activity.h"
#include "core/block_digest.h"
#include "core/holder.h"
#include "core/slice_pull.h"
#include "link.h"
#include "puppet.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr VersionId kId{1, 7};

struct Source {
  explicit Source(size_t bytes) : weights(bytes) {
    for (size_t i = 0; i < bytes; i++) weights[i] = static_cast<uint8_t>(i * 2654435761u >> 7);
    const Abort never;
    store = VersionStore::open({keyOf("key"), "job", "source", folder.path(), std::string("127.0.0.1"), bytes, 2}).value();
    CHECK(store->publish(kId, {{"weights", weights}}, never).ok());
  }
  std::string address() const { return store->addresses()[1]; }
  WantedSection wanted() const { return {"weights", weights.size(), digestOf(weights)}; }
  Result<Pulled> pulled(const std::vector<std::string>& from, Bytes& into) const {
    const Abort never;
    PullOptions options{keyOf("key"), "job", "reader", {}, kId, {wanted()}, nullptr};
    for (const std::string& each : from) options.holders.push_back(parseAddress(each).value());
    options.into = {into};
    return pull(options, patienceOf(never));
  }
  Result<SlicesPulled> sliced(const std::vector<std::string>& from, Bytes& into) const {
    const Abort never;
    SlicePullOptions options{keyOf("key"), "job", "reader", {}, kId, wanted(), {{0, 0, 0, 0, weights.size(), 1}}};
    for (const std::string& each : from) options.holders.push_back(parseAddress(each).value());
    return pullSlices(options, into, patienceOf(never));
  }

  TemporaryFolder folder;
  Bytes weights;
  std::shared_ptr<VersionStore> store;
};

// Until a packet that asks for a connection to this port is under way, and was not answered.
bool awaitUnanswered(uint16_t port) {
  char wanted[16];
  std::snprintf(wanted, sizeof wanted, ":%04X 02", port);
  const Deadline until = Deadline::in(Milliseconds(5'000));
  while (!until.passed()) {
    std::ifstream sockets("/proc/net/tcp");
    for (std::string line; std::getline(sockets, line);)
      if (line.find(wanted) != std::string::npos) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST("a silence is as long as a packet takes that is sent again, on a short way and on a long one") {
  CHECK(silenceOf(Milliseconds(0)) == Milliseconds(220));
  CHECK(silenceOf(Milliseconds(20)) == Milliseconds(260));
  CHECK(silenceOf(Milliseconds(200)) == Milliseconds(820));
  CHECK(silenceOf(Milliseconds(5'000)) == network().starved);
}

TEST("a version comes from the first of two holders whatever the round trip, and when a packet has to be sent again") {
  const Source source(400'000);
  for (const int roundTrip : {0, 20, 200}) {
    const Milliseconds again{roundTrip + std::max(200, 2 * roundTrip)};
    const Link first(source.address(), {Milliseconds(roundTrip), 150'000, again}), second(source.address(), {Milliseconds(roundTrip)});
    Bytes into(source.weights.size());
    const auto pulled = source.pulled({first.address(), second.address()}, into);
    REQUIRE_OK(pulled);
    CHECK(into == source.weights && pulled.value().from == first.address());
    CHECK(first.calls() == 1 && second.calls() == 0);
  }
}

TEST("slices of a version come from the first of two holders over a long way, too") {
  const Source source(300'000);
  const Link first(source.address(), {Milliseconds(200), 100'000, Milliseconds(600)}), second(source.address(), {Milliseconds(200)});
  Bytes into(source.weights.size());
  const auto pulled = source.sliced({first.address(), second.address()}, into);
  REQUIRE_OK(pulled);
  CHECK(into == source.weights && pulled.value().from == first.address());
  CHECK(second.calls() == 0);
}

TEST("a holder that gets a tenth of its time is not left") {
  const Source source(1'000'000);
  const Link throttled(source.address(), {Milliseconds(0), SIZE_MAX, Milliseconds(0), Milliseconds(180)}), other(source.address(), {});
  Bytes into(source.weights.size());
  const auto pulled = source.pulled({throttled.address(), other.address()}, into);
  REQUIRE_OK(pulled);
  CHECK(into == source.weights && other.calls() == 0);
}

TEST("the first packet of a connection may be lost") {
  const Source source(100'000);
  // A listener whose backlog is full answers nobody: what asks for a connection is lost, and sent again after a second.
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  CHECK(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), size) == 0 && ::listen(listener.get(), 0) == 0);
  CHECK(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  UniqueFd filler(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(::connect(filler.get(), reinterpret_cast<const sockaddr*>(&at), size) == 0);

  Bytes into(source.weights.size());
  std::optional<Result<Pulled>> pulled;
  const uint16_t port = ntohs(at.sin_port);
  std::thread reader([&] { pulled = source.pulled({"tcp:127.0.0.1:" + std::to_string(port)}, into); });
  CHECK(awaitUnanswered(port));
  const Abort never;
  const Patience patience = patienceOf(never);
  const auto accepted = [&] {
    CHECK(awaitReady(listener.get(), POLLIN, patience).ok());
    return std::move(acceptFrom(listener.get(), Address::Kind::Tcp).value());
  };
  const UniqueFd first = accepted();
  Connection holder(accepted());
  CHECK(welcome(holder, keyOf("key"), patience).ok());
  CHECK(holder.receive(FrameType::Request, patience).ok());
  const Digested digested = copyAndDigest(source.weights, nullptr, [] { return Status{}; }).value();
  const Section section{"weights", 0, source.weights.size(), digested.root, digested.blocks};
  CHECK(holder.send({FrameType::Grant, encodeSections({section})}, patience).ok());
  CHECK(holder.send({FrameType::Data, source.weights}, patience).ok());
  CHECK(holder.send({FrameType::End}, patience).ok());
  reader.join();
  REQUIRE_OK(*pulled);
  CHECK(into == source.weights);
}

TEST("of two holders one that lives and gets nothing more is left, over TCP for slices and on the same host for all") {
  const Source source(1'000'000);
  const Abort never;
  Bytes into(source.weights.size());
  Clock::makeTurnable();
  std::atomic<int> words{0};
  const uint64_t calls = activity().accepted;
  const Puppet starved([&](Connection& connection, const PullRequest&) {
    const Patience patience{Deadline::in(Milliseconds(10'000)), &starved.stopping()};
    const Digested digested = copyAndDigest(source.weights, nullptr, [] { return Status{}; }).value();
    const Section section{"weights", 0, source.weights.size(), digested.root, digested.blocks};
    if (!connection.send({FrameType::Grant, encodeSections({section})}, patience).ok()) return;
    while (connection.send({FrameType::Alive, {}, 1}, patience).ok() && pause(Milliseconds(50), patience).ok()) words++;
  });
  std::optional<Result<SlicesPulled>> sliced;
  std::thread slices([&] { sliced = source.sliced({starved.address(), source.address()}, into); });

  // A store of this host whose version stopped arriving.
  const TemporaryFolder folder;
  const auto middle = VersionStore::open({keyOf("key"), "job", "middle", folder.path(), std::nullopt, source.weights.size(), 2}).value();
  const Digested digested = copyAndDigest(source.weights, nullptr, [] { return Status{}; }).value();
  Result<VersionArena::Incoming> incoming = middle->receive(kId, {{"weights", 0, source.weights.size(), digested.root, digested.blocks}});
  REQUIRE_OK(incoming);
  incoming.value().advance(1 << 18);
  Bytes other(source.weights.size());
  const auto began = Clock::Kernel::now();
  // Two seconds later, as soon as both wait. Had one not heard its first word yet, it would take them really.
  std::thread time([&] {
    while (activity().accepted < calls + 2 || words < 3) std::this_thread::yield();
    Clock::turn(network().starved);
  });
  const auto pulled = source.pulled({middle->addresses()[0], source.address()}, other);
  slices.join();
  time.join();
  REQUIRE_OK(pulled);
  REQUIRE_OK(*sliced);
  CHECK(Clock::Kernel::now() - began < Milliseconds(5'000));
  CHECK(into == source.weights && other == source.weights);
  CHECK(pulled.value().from == source.address() && sliced->value().from == source.address());
}
