// Which slot a version goes to: what fails to arrive costs nothing that is here, and nobody is given a slot being written.
#include <atomic>
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
