// Versions on their way: receivers that serve what is still arriving, holders that break off, freeze and lie in the middle.
#include <atomic>
#include <thread>

#include "check.h"
#include "core/block_digest.h"
#include "core/pull.h"
#include "puppet.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr VersionId kId{1, 7};

Bytes filled(size_t size, uint64_t seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<uint8_t>((i * 2654435761u + seed * 977) >> 7);
  return bytes;
}

std::shared_ptr<VersionStore> openStore(const std::string& folder, const std::string& member) {
  return VersionStore::open({keyOf("key"), "job", member, folder, std::string("127.0.0.1"), size_t{16} << 20, 2}).value();
}

std::string tcpOf(const VersionStore& store) { return store.addresses()[1]; }

Section sectionOf(const std::string& name, const Bytes& bytes) {
  const Digested digested = copyAndDigest(bytes, nullptr, [] { return Status{}; }).value();
  return {name, 0, bytes.size(), digested.root, digested.blocks};
}

PullOptions pullOf(const std::vector<std::string>& holders, const Bytes& weights,
                   std::shared_ptr<VersionStore> keepIn = nullptr) {
  PullOptions options{keyOf("key"), "job", "reader", {}, kId, {{"weights", weights.size(), digestOf(weights)}}, keepIn};
  for (const std::string& holder : holders) options.holders.push_back(parseAddress(holder).value());
  return options;
}

bool equals(ByteView a, ByteView b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0; }

// Sends a grant and the bytes from the offset asked for up to `until`.
void sendUntil(Connection& connection, const PullRequest& request, const Bytes& weights, size_t until,
               const Patience& patience) {
  CHECK(connection.send({FrameType::Grant, encodeSections({sectionOf("weights", weights)})}, patience).ok());
  for (size_t at = request.offset; at < until; at += 100'000) {
    const ByteView chunk = ByteView(weights).subspan(at, std::min<size_t>(100'000, until - at));
    if (!connection.send({FrameType::Data, chunk, at}, patience).ok()) return;
  }
}

}  // namespace

TEST("a receiver serves a version whose bytes are still arriving, as far as it is verified") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(3'500'000, 1);
  const auto middle = openStore(folder.path(), "middle");
  Result<VersionArena::Incoming> incoming = middle->receive(kId, {sectionOf("weights", weights)});
  REQUIRE_OK(incoming);
  CHECK(!middle->holds(kId));

  const auto last = openStore(folder.path(), "last");
  std::optional<Result<Pulled>> pulled;
  std::thread reader([&] { pulled = pull(pullOf({tcpOf(*middle)}, weights, last), patienceOf(never)); });
  std::memcpy(incoming.value().data(), weights.data(), weights.size());
  incoming.value().advance(2 << 20);
  // What the middle has verified arrives at the end of the chain before the middle has the rest.
  std::optional<Result<VersionArena::Lease>> found;
  const Deadline until = Deadline::in(Milliseconds(5'000));
  do found.emplace(last->lease(kId));
  while (!found->ok() && !until.passed());
  REQUIRE_OK(*found);
  const VersionArena::Lease& arriving = found->value();
  uint64_t watermark = 0;
  while (watermark < (2 << 20)) {
    const Progress progress = arriving.await(watermark, Milliseconds(5'000));
    if (progress.watermark == watermark) break;
    watermark = progress.watermark;
  }
  CHECK(watermark == (2 << 20));
  CHECK(equals({arriving.data(), watermark}, ByteView(weights).first(watermark)));
  CHECK(!last->holds(kId));
  incoming.value().advance(weights.size());
  const VersionArena::Lease whole = incoming.value().finish();
  reader.join();
  REQUIRE_OK(*pulled);
  CHECK(equals(pulled->value().sections.front(), weights));
  CHECK(middle->holds(kId) && last->holds(kId));
}

TEST("a chain of receivers that all start at once ends with the same bytes everywhere, and each serves them") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(9'000'001, 2);
  const auto source = openStore(folder.path(), "source");
  REQUIRE_OK(source->publish(kId, {{"weights", weights}}, never));
  constexpr size_t kHops = 5;
  std::vector<std::shared_ptr<VersionStore>> stores;
  for (size_t i = 0; i < kHops; i++) stores.push_back(openStore(folder.path(), "hop" + std::to_string(i)));
  std::vector<Result<Pulled>> pulled(kHops, Status{Code::Closed, "not run", {}});
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kHops; i++) {
    const std::string upstream = i == 0 ? tcpOf(*source) : tcpOf(*stores[i - 1]);
    threads.emplace_back([&, i, upstream] {
      pulled[i] = pull(pullOf({upstream, tcpOf(*source)}, weights, stores[i]), patienceOf(never));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kHops; i++) {
    REQUIRE_OK(pulled[i]);
    CHECK(equals(pulled[i].value().sections.front(), weights));
    CHECK(pulled[i].value().from == (i == 0 ? tcpOf(*source) : tcpOf(*stores[i - 1])));
    CHECK(stores[i]->holds(kId));
  }
}

TEST("a starved holder is waited for, a silent one is left for the next, which goes on at the last verified block") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(5'000'000, 3);
  const auto source = openStore(folder.path(), "source");
  REQUIRE_OK(source->publish(kId, {{"weights", weights}}, never));
  std::atomic<bool> starving{true};
  const Puppet starved([&](Connection& connection, const PullRequest& request) {
    const Patience patience = patienceOf(never);
    sendUntil(connection, request, weights, 2'500'000, patience);
    for (int i = 0; i < 10; i++) {  // half a second without a byte: three times the silence allowed
      CHECK(connection.send({FrameType::Alive, {}, 2'500'000}, patience).ok());
      std::this_thread::sleep_for(Milliseconds(50));
    }
    starving = false;
    for (size_t at = 2'500'000; at < weights.size(); at += 500'000)
      CHECK(connection.send({FrameType::Data, ByteView(weights).subspan(at, 500'000), at}, patience).ok());
    CHECK(connection.send({FrameType::End}, patience).ok());
  });
  const auto patient = pull(pullOf({starved.address(), tcpOf(*source)}, weights), patienceOf(never));
  REQUIRE_OK(patient);
  CHECK(patient.value().from == starved.address() && !starving);

  std::atomic<uint64_t> resumedAt{0};
  const Puppet silent([&](Connection& connection, const PullRequest& request) {
    sendUntil(connection, request, weights, 2'500'000, patienceOf(never));
    pollfd wait{silent.stopping().fd(), POLLIN, 0};
    ::poll(&wait, 1, 5'000);
  });
  const Puppet next([&](Connection& connection, const PullRequest& request) {
    resumedAt = request.offset;
    sendUntil(connection, request, weights, weights.size(), patienceOf(never));
    CHECK(connection.send({FrameType::End}, patienceOf(never)).ok());
  });
  const auto startedAt = Clock::now();
  const auto switched = pull(pullOf({silent.address(), next.address()}, weights), patienceOf(never));
  REQUIRE_OK(switched);
  CHECK(equals(switched.value().sections.front(), weights));
  CHECK(resumedAt == 2'500'000 / BlockDigest::kBlockBytes * BlockDigest::kBlockBytes);
  CHECK(Clock::now() - startedAt < Milliseconds(1'500));
}

TEST("the end of a chain whose head stalls stays with the store before it as long as that says that it lives, for two seconds") {
  const Abort never;
  const Bytes weights = filled(5'000'000, 10);
  Clock::duration stayed{};
  // Where this host is so busy that a store is silent for too long, another try tells.
  for (int tries = 0; tries < 3 && stayed < Milliseconds(2'000); tries++) {
    const TemporaryFolder folder;
    Abort over;
    std::atomic<Clock::time_point> stalledAt{}, leftAt{};
    const Puppet head([&](Connection& connection, const PullRequest& request) {
      if (stalledAt.load() != Clock::time_point{}) return;
      sendUntil(connection, request, weights, 2'000'000, patienceOf(never));
      stalledAt = Clock::now();
      const Patience patience = patienceOf(over);
      if (!connection.send({FrameType::Data, ByteView(weights).subspan(2'000'000, 500'000), 2'000'000}, patience).ok()) return;
      while (connection.send({FrameType::Alive, {}, 2'500'000}, patience).ok() && pause(Milliseconds(50), patience).ok()) {}
    });
    const Puppet spare([&](Connection& connection, const PullRequest& request) {
      leftAt = Clock::now();
      sendUntil(connection, request, weights, weights.size(), patienceOf(never));
      CHECK(connection.send({FrameType::End}, patienceOf(never)).ok());
    });
    std::string upstream = head.address();
    std::vector<std::thread> threads;
    for (const char* member : {"first", "second"}) {
      const auto store = openStore(folder.path(), member);
      threads.emplace_back([&, upstream, store] { CHECK(!pull(pullOf({upstream}, weights, store), patienceOf(over)).ok()); });
      const Deadline until = Deadline::in(Milliseconds(5'000));
      while (!store->lease(kId).ok() && !until.passed()) std::this_thread::yield();
      upstream = tcpOf(*store);
    }
    const auto last = openStore(folder.path(), "last");
    const auto pulled = pull(pullOf({upstream, spare.address()}, weights, last), patienceOf(never));
    over.request();
    for (std::thread& thread : threads) thread.join();
    REQUIRE_OK(pulled);
    CHECK(equals(pulled.value().sections.front(), weights));
    CHECK(pulled.value().from == spare.address());
    stayed = leftAt.load() - stalledAt.load();
    CHECK(stayed < Milliseconds(6'000));
  }
  CHECK(stayed >= Milliseconds(2'000));
}

TEST("a block that was changed is noticed before it is passed on, and comes from another holder") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(3'000'000, 4);
  const auto source = openStore(folder.path(), "source");
  REQUIRE_OK(source->publish(kId, {{"weights", weights}}, never));
  const Puppet liar([&](Connection& connection, const PullRequest& request) {
    const Patience patience = patienceOf(never);
    CHECK(connection.send({FrameType::Grant, encodeSections({sectionOf("weights", weights)})}, patience).ok());
    Bytes changed = weights;
    changed[1'500'000] ^= 0x10;
    for (size_t at = request.offset; at < changed.size(); at += 100'000)
      if (!connection.send({FrameType::Data, ByteView(changed).subspan(at, 100'000), at}, patience).ok()) return;
  });
  const auto store = openStore(folder.path(), "receiver");
  const auto pulled = pull(pullOf({liar.address(), tcpOf(*source)}, weights, store), patienceOf(never));
  REQUIRE_OK(pulled);
  CHECK(equals(pulled.value().sections.front(), weights));
  CHECK(pulled.value().from == tcpOf(*source));
  const auto alone = pull(pullOf({liar.address()}, weights), patienceOf(never));
  CHECK(alone.status().code == Code::DigestMismatch);
}

TEST("block digests that do not come to the digest wanted are refused before a byte moves") {
  const Abort never;
  const Bytes weights = filled(2'000'000, 5);
  const Puppet liar([&](Connection& connection, const PullRequest&) {
    Section section = sectionOf("weights", weights);
    section.blocks[0]++;
    CHECK(connection.send({FrameType::Grant, encodeSections({section})}, patienceOf(never)).ok());
  });
  const auto pulled = pull(pullOf({liar.address()}, weights), patienceOf(never));
  CHECK(pulled.status().message.find("do not come to its digest") != std::string::npos);
}

TEST("a holder that breaks off during the handshake is tried again") {
  const Abort never;
  const Bytes weights = filled(1'000'000, 6);
  std::atomic<int> calls{0};
  const Puppet shaky([&](Connection& connection, const PullRequest& request) {
    if (calls++ == 0) return;  // closes on the request, before any answer
    sendUntil(connection, request, weights, weights.size(), patienceOf(never));
    CHECK(connection.send({FrameType::End}, patienceOf(never)).ok());
  });
  REQUIRE_OK(pull(pullOf({shaky.address()}, weights), patienceOf(never)));
  CHECK(calls == 2);
}

TEST("a version that stops arriving is dropped, its readers are told, and the slot serves again") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(2'000'000, 7);
  const auto middle = openStore(folder.path(), "middle");
  std::optional<Result<Pulled>> byTcp, byMemory;
  std::vector<std::thread> readers;
  {
    Result<VersionArena::Incoming> incoming = middle->receive(kId, {sectionOf("weights", weights)});
    REQUIRE_OK(incoming);
    CHECK(middle->receive(kId, {sectionOf("weights", weights)}).status().code == Code::Conflict);
    readers.emplace_back([&] { byTcp = pull(pullOf({tcpOf(*middle)}, weights), patienceOf(never)); });
    readers.emplace_back([&] { byMemory = pull(pullOf({middle->addresses()[0]}, weights), patienceOf(never)); });
    std::this_thread::sleep_for(Milliseconds(60));  // long enough for both to be waiting; either order passes
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(byTcp->status().code == Code::Gone || byTcp->status().code == Code::Unreachable);
  CHECK(byMemory->status().code == Code::Gone || byMemory->status().code == Code::Unreachable);
  CHECK(middle->versions().empty());
  REQUIRE_OK(middle->publish(kId, {{"weights", weights}}, never));
  REQUIRE_OK(pull(pullOf({tcpOf(*middle)}, weights), patienceOf(never)));
}

TEST("a reader on the same host waits for an arriving version and maps it when it is whole") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(2'000'000, 8);
  const auto leader = openStore(folder.path(), "leader");
  Result<VersionArena::Incoming> incoming = leader->receive(kId, {sectionOf("weights", weights)});
  REQUIRE_OK(incoming);
  std::optional<Result<Pulled>> pulled;
  std::thread follower([&] { pulled = pull(pullOf({leader->addresses()[0]}, weights), patienceOf(never)); });
  std::memcpy(incoming.value().data(), weights.data(), weights.size());
  incoming.value().advance(weights.size());
  const VersionArena::Lease whole = incoming.value().finish();
  follower.join();
  REQUIRE_OK(*pulled);
  CHECK(pulled->value().via == Via::Memory);
  CHECK(equals(pulled->value().sections.front(), weights));
}

TEST("a version that came before is not fetched again, and a slot with an arriving version is not taken") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(1'000'000, 9);
  const auto source = openStore(folder.path(), "source");
  REQUIRE_OK(source->publish(kId, {{"weights", weights}}, never));
  const auto receiver = openStore(folder.path(), "receiver");
  REQUIRE_OK(pull(pullOf({tcpOf(*source)}, weights, receiver), patienceOf(never)));
  const auto again = pull(pullOf({"tcp:127.0.0.1:1"}, weights, receiver), patienceOf(never));
  REQUIRE_OK(again);
  CHECK(again.value().via == Via::Memory);

  VersionArena arena(4 << 20, 2);
  Result<VersionArena::Incoming> incoming = arena.receive({1, 1}, {sectionOf("weights", weights)});
  REQUIRE_OK(incoming);
  for (uint64_t v = 2; v < 6; v++) REQUIRE_OK(arena.publish({1, v}, {{"weights", filled(1000, v)}}, never));
  std::memcpy(incoming.value().data(), weights.data(), weights.size());
  incoming.value().advance(weights.size());
  { const VersionArena::Lease whole = incoming.value().finish(); }
  CHECK((arena.versions() == std::vector<VersionId>{{1, 1}, {1, 5}}));
}
