// Which slot a version goes to: what fails to arrive costs nothing that is here, and nobody is given a slot being written.
#include <atomic>
#include <functional>
#include <thread>

#include "check.h"
#include "core/block_digest.h"
#include "core/delta_base.h"
#include "core/pull.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr size_t kBytes = 300'000;
constexpr size_t kLarge = size_t{64} << 20;  // takes so long to publish that something can be done meanwhile

Bytes filled(size_t size, uint64_t seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<uint8_t>((i * 2654435761u + seed * 977) >> 7);
  return bytes;
}

std::vector<Section> sectionsOf(size_t bytes) { return {{"weights", 0, bytes, 1, {}}}; }

// Versions begin to arrive, write over all that they were given, and break off.
void failToArrive(const std::shared_ptr<VersionStore>& store, VersionId id, size_t times) {
  for (size_t i = 0; i < times; i++) {
    Result<VersionArena::Incoming> incoming = store->receive(id, sectionsOf(kBytes));
    REQUIRE_OK(incoming);
    std::memset(incoming.value().data(), 0xee, kBytes);
  }
}

void areServed(const std::shared_ptr<VersionStore>& store, uint64_t first, uint64_t last) {
  const Abort never;
  for (uint64_t v = first; v <= last; v++)
    for (const std::string& address : store->addresses()) {
      const Bytes weights = filled(kBytes, v);
      Bytes into(kBytes);
      PullOptions options{keyOf("key"), "job", "reader", {parseAddress(address).value()}, {1, v}, {}, nullptr};
      options.wanted = {{"weights", kBytes, digestOf(weights)}};
      options.into = {into};
      REQUIRE_OK(pull(options, patienceOf(never)));
      CHECK(into == weights);
    }
}

struct Trial {
  VersionId published, last;
  std::vector<Status> said;
};

// Publishes `weights` and calls `arrive` again and again while they are copied. The last call may come too late, and be
// given the slot of what is published by then: such a trial proves nothing, and there is another one.
Trial arriveWhilePublishing(VersionArena& arena, const Bytes& weights, const std::function<Status(VersionId)>& arrive) {
  const Abort never;
  const Deadline until = Deadline::in(Milliseconds(60'000));
  for (VersionId id{1, 0}; !until.passed(); id.version += 1'000'000) {
    Trial trial{id, id, {}};
    std::atomic<bool> over{false};
    std::thread publisher([&] {
      CHECK(arena.publish(id, {{"weights", weights}}, never).ok());
      over = true;
    });
    const auto publishing = [&] { return arena.lease(id, Milliseconds(0)).status().code == Code::Timeout; };
    while (!publishing() && !over) std::this_thread::yield();
    while (publishing()) {
      trial.last.version++;
      trial.said.push_back(arrive(trial.last));
    }
    publisher.join();
    if (!trial.said.empty() && arena.holds(id)) return trial;
  }
  CHECK(!"a publication during which something arrives");
  return {};
}

bool isWhole(VersionArena& arena, VersionId id, const Bytes& weights) {
  const Result<VersionArena::Lease> lease = arena.lease(id, Milliseconds(0));
  return lease.ok() && std::memcmp(lease.value().data(), weights.data(), weights.size()) == 0;
}

}  // namespace

TEST("versions that fail to arrive again and again leave those that are here held, served, and a base for deltas") {
  const TemporaryFolder folder;
  const Abort never;
  const auto opened = VersionStore::open({keyOf("key"), "job", "a", folder.path(), std::string("127.0.0.1"), kBytes, 4});
  REQUIRE_OK(opened);
  const std::shared_ptr<VersionStore> store = opened.value();
  for (uint64_t v = 1; v <= 3; v++) REQUIRE_OK(store->publish({1, v}, {{"weights", filled(kBytes, v)}}, never));
  failToArrive(store, {1, 9}, 5);
  CHECK((store->versions() == std::vector<VersionId>{{1, 1}, {1, 2}, {1, 3}}));
  areServed(store, 1, 3);
  REQUIRE_OK(store->publish({1, 4}, {{"weights", filled(kBytes, 4)}}, never));
  areServed(store, 1, 4);
  failToArrive(store, {1, 9}, 5);  // now every slot has a version: the oldest gives way, and no other
  CHECK((store->versions() == std::vector<VersionId>{{1, 2}, {1, 3}, {1, 4}}));
  areServed(store, 2, 4);
  const std::optional<DeltaBase> base = DeltaBase::choose(store, sectionsOf(kBytes));
  CHECK(base && (base->id() == VersionId{1, 4}));
  CHECK(base && base->digests() == std::vector<uint64_t>{digestOf(filled(kBytes, 4))});
}

TEST("publications that fail again and again leave the versions that are here") {
  Abort aborted;
  const Abort never;
  aborted.request();
  VersionArena arena(kBytes, 3);
  for (uint64_t v = 1; v <= 3; v++) REQUIRE_OK(arena.publish({1, v}, {{"weights", filled(kBytes, v)}}, never));
  for (int i = 0; i < 5; i++)
    CHECK(arena.publish({1, 9}, {{"weights", filled(kBytes, 9)}}, aborted).status().code == Code::Aborted);
  CHECK((arena.versions() == std::vector<VersionId>{{1, 2}, {1, 3}}));
  REQUIRE_OK(arena.publish({1, 9}, {{"weights", filled(kBytes, 9)}}, never));
  CHECK((arena.versions() == std::vector<VersionId>{{1, 2}, {1, 3}, {1, 9}}));
}

TEST("versions that arrive while another one is published get another slot, and all stay whole") {
  VersionArena arena(kLarge, 2);
  const Bytes weights = filled(kLarge, 1), others = filled(kBytes, 2);
  const Trial trial = arriveWhilePublishing(arena, weights, [&](VersionId id) -> Status {
    Result<VersionArena::Incoming> incoming = arena.receive(id, sectionsOf(kBytes));
    if (!incoming.ok()) return incoming.status();
    std::memcpy(incoming.value().data(), others.data(), kBytes);
    const VersionArena::Lease held = incoming.value().finish();
    return {};
  });
  for (const Status& status : trial.said) REQUIRE_OK(status);
  CHECK((arena.versions() == std::vector<VersionId>{trial.published, trial.last}));
  CHECK(isWhole(arena, trial.published, weights));
  CHECK(isWhole(arena, trial.last, others));
}

TEST("a version that is published into the only slot keeps it: others are refused until it is there") {
  VersionArena arena(kLarge, 1);
  const Bytes weights = filled(kLarge, 1);
  const Trial trial = arriveWhilePublishing(
      arena, weights, [&](VersionId id) { return arena.receive(id, sectionsOf(kBytes)).status(); });
  for (const Status& status : trial.said) {
    CHECK(status.code == Code::Conflict);
    CHECK(status.message == "no slot is free: a version is being published");
  }
  CHECK(isWhole(arena, trial.published, weights));
  CHECK(arena.receive({2, 1}, sectionsOf(kBytes)).ok());
}
