// What the data plane counts and remembers, the times that it is told, and the clock that tests turn.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "check.h"
#include "core/activity.h"
#include "core/block_digest.h"
#include "core/pull.h"
#include "core/version_store.h"
#include "puppet.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr VersionId kId{1, 7};

// How often something has happened since the last call.
class Since {
 public:
  explicit Since(Event event) : event_(event), before_(activity().count(event)) {}
  uint64_t count() const { return activity().count(event_) - before_; }

 private:
  const Event event_;
  const uint64_t before_;
};

uint64_t receivedFrom(const std::string& peer) {
  for (const Activity::PeerCount& each : activity().peers())
    if (each.name == peer) return each.received;
  return 0;
}

std::string textOf(const Activity::Taken& taken, Event event) {
  const auto at = std::ranges::find(taken.events, event, &Happened::event);
  return at == taken.events.end() ? "" : at->peer + ": " + at->text;
}

struct Source {
  Source() : weights(300'000, 7) {
    const Abort never;
    store = VersionStore::open({keyOf("key"), "job", "source", folder.path(), std::string("127.0.0.1"), weights.size(), 2}).value();
    CHECK(store->publish(kId, {{"weights", weights}}, never).ok());
  }
  Result<Pulled> pulled(const std::vector<std::string>& from, std::string_view key, Bytes& into) const {
    const Abort never;
    const Bytes secret = keyOf(key);
    PullOptions options{secret, "job", "reader", {}, kId, {{"weights", weights.size(), digestOf(weights)}}, nullptr};
    for (const std::string& each : from) options.holders.push_back(parseAddress(each).value());
    options.into = {into};
    return pull(options, patienceOf(never));
  }

  TemporaryFolder folder;
  Bytes weights;
  std::shared_ptr<VersionStore> store;
};

}  // namespace

TEST("bytes are counted by host, connections by who began them, and a fail-over says from whom and why") {
  const Source source;
  [[maybe_unused]] const auto earlier = activity().take();
  const Since failOvers(Event::FailOver);
  const uint64_t before = receivedFrom("127.0.0.1"), opened = activity().opened, accepted = activity().accepted;
  Bytes into(source.weights.size());
  REQUIRE_OK(source.pulled({"tcp:127.0.0.1:1", source.store->addresses()[1]}, "key", into));
  CHECK(failOvers.count() == 1);
  CHECK(receivedFrom("127.0.0.1") - before > source.weights.size());
  CHECK(activity().opened == opened + 1 && activity().accepted == accepted + 1);
  const std::string why = textOf(activity().take(), Event::FailOver);
  CHECK(why.starts_with(source.store->addresses()[1]) && why.find("tcp:127.0.0.1:1: cannot connect") != std::string::npos);
}

TEST("a caller with another key is counted as refused, by its holder") {
  const Source source;
  const Since refused(Event::Refused);
  Bytes into(source.weights.size());
  CHECK(source.pulled({source.store->addresses()[1]}, "another key", into).status().code == Code::Refused);
  // The caller hangs up as soon as it sees that the holder does not know its key: the holder gets no proof.
  Connection stranger(std::move(connectTo(parseAddress(source.store->addresses()[1]).value(), patienceOf(Abort())).value()));
  const Abort never;
  CHECK(greet(stranger, keyOf("key"), {Purpose::Pull, "another job", "reader", encodeId(kId)}, patienceOf(never)).ok());
  CHECK(stranger.send({FrameType::Request, encodeRequest({0, 1'000, {"weights"}})}, patienceOf(never)).ok());
  CHECK(stranger.receive(FrameType::Grant, patienceOf(never)).status().code == Code::Refused);
  const Deadline until = Deadline::in(Milliseconds(5'000));
  while (refused.count() < 1 && !until.passed()) std::this_thread::yield();
  CHECK(refused.count() == 1);
}

TEST("a silent holder is a stall, seen as soon as the clock says so") {
  Clock::makeTurnable();
  const Since stalls(Event::Stall);
  std::atomic<bool> asked{false};
  const Puppet silent([&](Connection&, const PullRequest&) {
    asked = true;
    const Patience patience{Deadline::in(Milliseconds(600'000)), &silent.stopping()};
    while (pause(Milliseconds(60'000), patience).ok()) {}
  });
  const Source source;
  Bytes into(source.weights.size());
  std::optional<Result<Pulled>> pulled;
  std::thread reader([&] { pulled = source.pulled({silent.address(), source.store->addresses()[1]}, "key", into); });
  while (!asked) std::this_thread::yield();
  Clock::turn(network().answer);
  reader.join();
  REQUIRE_OK(*pulled);
  CHECK(into == source.weights && stalls.count() == 1);
}

TEST("a flood of one kind pushes out no other, is counted, and is told once for all") {
  [[maybe_unused]] const auto earlier = activity().take();
  int told = 0;
  activity().hear(&told, [&] { told++; });
  activity().note(Event::HostLost, "10.0.0.7", "silent");
  const Since evicted(Event::Evicted);
  for (int i = 0; i < 1'000; i++) activity().note(Event::Evicted, "10.0.0.8", std::string(10'000, 'x'));
  activity().deafen(&told);
  activity().note(Event::Evicted, "10.0.0.8", "nobody hears");
  const Activity::Taken taken = activity().take();
  CHECK(told == 1'001 && evicted.count() == 1'001);
  CHECK(taken.events.size() == kEventsMax + 1 && taken.forgotten == 1'001 - kEventsMax);
  CHECK(taken.events.front().event == Event::HostLost && taken.events.back().text == "nobody hears");
  CHECK(std::ranges::all_of(taken.events, [](const Happened& each) { return each.text.size() <= kEventTextMax; }));
  CHECK(activity().take().events.empty());
}

TEST("times of the network that do not go together are refused by name, and change nothing") {
  CHECK(NetworkTimes{}.check().ok());
  const auto refusal = [](auto change) {
    NetworkTimes times;
    change(times);
    const Status set = setNetwork(times);
    CHECK(set.code == Code::InvalidArgument && network().alive == NetworkTimes{}.alive);
    return set.message;
  };
  CHECK(refusal([](NetworkTimes& t) { t.alive = Milliseconds(200); }) ==
        "4 times alive = 200 ms must be at most answer = 500 ms: three words may be late");
  CHECK(refusal([](NetworkTimes& t) { t.hostSilence = Milliseconds(100); }).find("host_silence = 100 ms") != std::string::npos);
  CHECK(refusal([](NetworkTimes& t) { t.connect = Milliseconds(400); }).find("connect = 400 ms") != std::string::npos);
  CHECK(refusal([](NetworkTimes& t) { t.stall = Milliseconds(1'000); }).find("stall = 1000 ms") != std::string::npos);
  CHECK(refusal([](NetworkTimes& t) { t.meshCall = Milliseconds(500); }).find("mesh_call = 500 ms") != std::string::npos);
  CHECK(refusal([](NetworkTimes& t) { t.alive = Milliseconds(0); }).find("alive = 0 ms") != std::string::npos);

  NetworkTimes slow;
  slow.answer = Milliseconds(1'400);
  CHECK(setNetwork(slow).ok() && network().answer == Milliseconds(1'400));
  CHECK(setNetwork({}).ok() && network().answer == Milliseconds(500));
}

TEST("a turned clock ends waits and leaves kernel time alone") {
  Clock::makeTurnable();
  const Abort never;
  const auto began = Clock::Kernel::now();
  const Deadline hour = Deadline::in(Milliseconds(3'600'000));
  const timespec before = hour.absolute();
  std::optional<Status> waited;
  std::thread sleeper([&] { waited = pause(Milliseconds(7'200'000), {hour, &never}); });
  Clock::turn(Milliseconds(1'800'000));
  CHECK(!hour.passed() && hour.absolute().tv_sec == before.tv_sec - 1'800);
  Clock::turn(Milliseconds(1'800'000));
  sleeper.join();
  CHECK(waited->code == Code::Timeout);
  CHECK(Clock::Kernel::now() - began < Milliseconds(60'000));
}
