// Publishing and pulling: same bytes, by memory and by TCP; what is refused; that a leased slot is never overwritten.
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "core/block_digest.h"
#include "core/handshake.h"
#include "core/pull.h"
#include "core/shared_memory.h"
#include "core/usage.h"
#include "core/version_store.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

Bytes filled(size_t size, uint64_t seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<uint8_t>((i * 2654435761u + seed * 977) >> 7);
  return bytes;
}

std::shared_ptr<VersionStore> openStore(const std::string& folder, const std::string& member, size_t slots = 2) {
  Result<std::shared_ptr<VersionStore>> store = VersionStore::open(
      {keyOf("key"), "job", member, folder, std::string("127.0.0.1"), size_t{8} << 20, slots});
  CHECK(store.ok());
  return store.ok() ? store.value() : nullptr;
}

PullOptions pullOf(const std::vector<std::string>& holders, VersionId id, const Bytes& into, uint64_t digest) {
  PullOptions options{keyOf("key"), "job", "reader", {}, id, {{"weights", into.size(), digest}}, nullptr};
  for (const std::string& holder : holders) options.holders.push_back(parseAddress(holder).value());
  return options;
}

// Pulls into `into`, as a caller does that wants a copy of its own.
Result<Pulled> pullInto(Bytes& into, const PullOptions& options, const Patience& patience) {
  PullOptions own = options;
  own.into = {into};
  return pull(own, patience);
}

}  // namespace

TEST("a pulled version has the bytes that were published, by memory and by TCP") {
  const TemporaryFolder folder;
  const Abort never;
  const auto store = openStore(folder.path(), "a");
  const Bytes weights = filled(3'000'001, 1);
  const auto published = store->publish({1, 1}, {{"weights", weights}}, never);
  REQUIRE_OK(published);
  CHECK(published.value().front().digest == digestOf(weights));
  for (const std::string& address : store->addresses()) {
    Bytes into(weights.size());
    const auto pulled = pullInto(into, pullOf({address}, {1, 1}, into, digestOf(weights)), patienceOf(never));
    REQUIRE_OK(pulled);
    CHECK(into == weights);
    CHECK(pulled.value().from == address);
    CHECK((pulled.value().via == Via::Memory) == address.starts_with("unix:"));
  }
}

TEST("a reader that copies for longer than its pull had time for costs its slot no fresh memory once it has let go") {
  const TemporaryFolder folder;
  const Abort never;
  const auto store = openStore(folder.path(), "a", 1);
  const Bytes weights = filled(300'000, 1);
  REQUIRE_OK(store->publish({1, 1}, {{"weights", weights}}, never));
  const auto memoryOf = [&](uint64_t version) {
    struct stat info {};
    const Result<VersionArena::Lease> lease = store->lease({1, version});
    CHECK(lease.ok() && ::fstat(lease.value().fd(), &info) == 0);
    return info.st_ino;
  };
  const ino_t before = memoryOf(1);
  const uint64_t connections = usage().connections;
  Bytes size(weights.size());
  const Deadline over = Deadline::in(Milliseconds(250));
  std::optional<Result<Pulled>> pulled = pull(pullOf({store->addresses()[0]}, {1, 1}, size, digestOf(weights)), patienceOf(never, 150));
  REQUIRE_OK(*pulled);
  while (!over.passed()) std::this_thread::yield();  // what it had for the pull is over; it reads on
  pulled.reset();
  const Deadline until = Deadline::in(Milliseconds(5'000));
  while (usage().connections > connections && !until.passed()) std::this_thread::yield();
  REQUIRE_OK(store->publish({1, 2}, {{"weights", weights}}, never));
  CHECK(memoryOf(2) == before);
}

TEST("of a thousand sections a reader gets those that it names, in its order, from a holder and from its own store") {
  constexpr size_t kCount = 1000;
  const TemporaryFolder folder;
  const Abort never;
  const auto holder = openStore(folder.path(), "a"), own = openStore(folder.path(), "b");
  std::vector<Bytes> contents;
  std::vector<SectionInput> inputs;
  for (size_t i = 0; i < kCount; i++) contents.push_back(filled(50 + i, i));
  for (size_t i = 0; i < kCount; i++) inputs.push_back({"tensor-" + std::to_string(i), contents[i]});
  const auto published = holder->publish({1, 1}, inputs, never);
  REQUIRE_OK(published);
  const std::vector<Section> inOrder = published.value();
  std::vector<Section> reversed(inOrder.rbegin(), inOrder.rend());
  const auto pullFrom = [&](const std::string& address, const std::vector<Section>& sections) {
    PullOptions options{keyOf("key"), "job", "reader", {parseAddress(address).value()}, {1, 1}, {}, own};
    for (const Section& each : sections) options.wanted.push_back({each.name, each.bytes, each.digest});
    return pull(options, patienceOf(never));
  };
  std::string from;
  for (const std::string& address : holder->addresses())
    for (const std::vector<Section>& wanted : {reversed, inOrder}) {
      const Result<Pulled> pulled = pullFrom(address, wanted);
      REQUIRE_OK(pulled);
      from = pulled.value().from;
      for (size_t i = 0; i < kCount; i++) {
        const size_t which = wanted[i].name == inOrder[i].name ? i : kCount - 1 - i;
        CHECK(std::ranges::equal(pulled.value().sections[i], contents[which]));
      }
    }
  CHECK(from == own->addresses().front());  // what came by TCP stayed there, in the order in which it was asked for
  reversed.front().name = "tensor-1000";
  CHECK(pullFrom(holder->addresses().front(), reversed).status().code == Code::Gone);
}

TEST("wrong key, wrong job, wrong digest and a version that is gone are told apart, and nothing is written") {
  const TemporaryFolder folder;
  const Abort never;
  const auto store = openStore(folder.path(), "a");
  const Bytes weights = filled(100'000, 1);
  REQUIRE_OK(store->publish({1, 1}, {{"weights", weights}}, never));
  for (const std::string& address : store->addresses()) {
    Bytes into(weights.size(), 9);
    const auto codeOf = [&](const PullOptions& options) { return pullInto(into, options, patienceOf(never)).status().code; };
    PullOptions options = pullOf({address}, {1, 1}, into, digestOf(weights));
    options.key = keyOf("other");
    CHECK(codeOf(options) == Code::Refused);
    options = pullOf({address}, {1, 1}, into, digestOf(weights));
    options.job = "other";
    CHECK(codeOf(options) == Code::Refused);
    CHECK(codeOf(pullOf({address}, {1, 1}, into, digestOf(weights) + 1)) == Code::DigestMismatch);
    CHECK(codeOf(pullOf({address}, {1, 2}, into, digestOf(weights))) == Code::Gone);
    CHECK(codeOf(pullOf({"unix:" + folder.path() + "/nobody.sock"}, {1, 1}, into, 0)) == Code::Unreachable);
    CHECK(into == Bytes(weights.size(), 9));
  }
}

TEST("memory that others could write or resize is not believed, by those that map and by those that copy") {
  const TemporaryFolder folder;
  const Abort never;
  const Bytes weights = filled(300'000, 1);
  const std::string path = folder.path() + "/holder.sock";
  UnixListener listener = std::move(UnixListener::open(path).value());
  Segment writable = std::move(createSegment("test", weights.size(), Access::ReadWrite).value());
  std::memcpy(writable.mapping.data(), weights.data(), weights.size());
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CHECK(::ftruncate(unsealed.get(), static_cast<off_t>(weights.size())) == 0);
  for (const int fd : {writable.fd.get(), unsealed.get()})
    for (const bool copies : {false, true}) {
      std::thread holder([&] {
        const Patience patience = patienceOf(never);
        CHECK(awaitReady(listener.fd(), POLLIN, patience).ok());
        Connection connection(std::move(acceptFrom(listener.fd(), Address::Kind::Unix).value()));
        CHECK(welcome(connection, keyOf("key"), patience).ok());
        CHECK(connection.receive(FrameType::Request, patience).ok());
        const Bytes grant = encodeSections({{"weights", 0, weights.size(), digestOf(weights), {}}});
        CHECK(connection.send({FrameType::Grant, grant, 0, fd}, patience).ok());
      });
      Bytes into(weights.size(), 9);
      PullOptions options = pullOf({"unix:" + path}, {1, 1}, into, digestOf(weights));
      if (copies) options.into = {into};
      const Result<Pulled> pulled = pull(options, patienceOf(never));
      holder.join();
      CHECK(pulled.status().code == Code::Unreachable || pulled.status().code == Code::Corrupt);
      CHECK(pulled.status().message.find("sealed against") != std::string::npos);
      CHECK(into == Bytes(weights.size(), 9));
    }
}

TEST("a slot with a lease is not overwritten, and does not delay the publisher") {
  const Abort never;
  VersionArena arena(1 << 20, 2);
  const Bytes first = filled(500'000, 1);
  REQUIRE_OK(arena.publish({1, 1}, {{"weights", first}}, never));
  Result<VersionArena::Lease> lease = arena.lease({1, 1}, Milliseconds(0));
  REQUIRE_OK(lease);
  for (uint64_t v = 2; v <= 6; v++) REQUIRE_OK(arena.publish({1, v}, {{"weights", filled(500'000, v)}}, never));
  CHECK(std::memcmp(lease.value().data(), first.data(), first.size()) == 0);
  CHECK(!arena.holds({1, 1}));
  CHECK((arena.versions() == std::vector<VersionId>{{1, 5}, {1, 6}}));
}

TEST("a slot whose reader was given up on is left to it: what it has mapped never changes") {
  const TemporaryFolder folder;
  const Abort never;
  StoreOptions options{keyOf("key"), "job", "a", folder.path(), std::nullopt, size_t{8} << 20, 2};
  options.holdMax = Milliseconds(50);
  const auto opened = VersionStore::open(options);
  REQUIRE_OK(opened);
  const auto store = opened.value();
  const Bytes weights = filled(500'000, 1);
  REQUIRE_OK(store->publish({1, 1}, {{"weights", weights}}, never));
  Connection reader(std::move(connectTo(parseAddress(store->addresses().front()).value(), patienceOf(never)).value()));
  REQUIRE_OK(greet(reader, keyOf("key"), {Purpose::Pull, "job", "reader", encodeId({1, 1})}, patienceOf(never)));
  PullRequest request{0, 5'000, {}};
  request.names.push_back("weights");
  REQUIRE_OK(reader.send({FrameType::Request, encodeRequest(request)}, patienceOf(never)));
  REQUIRE_OK(reader.receive(FrameType::Grant, patienceOf(never)));
  const UniqueFd memory = reader.takeFd();
  const Result<Mapping> mapped = mapSegment(memory.get(), weights.size(), Access::ReadOnly);
  REQUIRE_OK(mapped);
  // The reader says nothing; the holder hangs up when the lease is over, and knows no more of it.
  CHECK(reader.receive(FrameType::End, patienceOf(never)).status().code == Code::Unreachable);
  for (uint64_t v = 2; v <= 6; v++) REQUIRE_OK(store->publish({1, v}, {{"weights", filled(500'000, v)}}, never));
  CHECK(!store->holds({1, 1}));
  CHECK(std::memcmp(mapped.value().data(), weights.data(), weights.size()) == 0);
}

TEST("publishing a version that is still arriving ends with the version, whether it comes or not") {
  const Abort never;
  const Bytes weights = filled(300'000, 1);
  const Digested digested = copyAndDigest(weights, nullptr, [] { return Status{}; }).value();
  const std::vector<Section> sections{{"weights", 0, weights.size(), digested.root, digested.blocks}};
  for (const bool comes : {true, false}) {
    VersionArena arena(1 << 20, 2);
    std::optional<Result<VersionArena::Incoming>> incoming = arena.receive({1, 1}, sections);
    REQUIRE_OK(*incoming);
    std::atomic<bool> published{false};
    std::thread publisher([&] {
      CHECK(arena.publish({1, 1}, {{"weights", weights}}, never).ok());
      CHECK(arena.holds({1, 1}));
      published = true;
    });
    std::this_thread::sleep_for(Milliseconds(50));  // the delay is what is tested
    CHECK(!published);
    if (comes) {
      std::memcpy(incoming->value().data(), weights.data(), weights.size());
      incoming->value().advance(weights.size());
      const VersionArena::Lease whole = incoming->value().finish();
    }
    incoming.reset();
    publisher.join();
    const auto lease = arena.lease({1, 1}, Milliseconds(0));
    REQUIRE_OK(lease);
    CHECK(std::memcmp(lease.value().data(), weights.data(), weights.size()) == 0);
  }
  VersionArena arena(1 << 20, 2);
  const Result<VersionArena::Incoming> incoming = arena.receive({1, 1}, sections);
  REQUIRE_OK(incoming);
  Abort stop;
  stop.request();
  CHECK(arena.publish({1, 1}, {{"weights", weights}}, stop).status().code == Code::Aborted);
}

TEST("publishing the same bytes again succeeds, other bytes under the same id conflict, too many are refused") {
  const Abort never;
  VersionArena arena(1 << 16, 2);
  const Bytes weights = filled(1000, 1), other = filled(1000, 2), big = filled((1 << 16) + 1, 1);
  REQUIRE_OK(arena.publish({1, 1}, {{"weights", weights}}, never));
  CHECK(arena.publish({1, 1}, {{"weights", weights}}, never).ok());
  CHECK(arena.publish({1, 1}, {{"weights", other}}, never).status().code == Code::Conflict);
  CHECK(arena.publish({1, 2}, {{"weights", big}}, never).status().code == Code::TooLarge);
  CHECK(arena.holds({1, 1}));
}

TEST("readers that pull while versions are published get whole versions or none") {
  const TemporaryFolder folder;
  const Abort never;
  const auto store = openStore(folder.path(), "a");
  constexpr uint64_t kVersions = 60;
  constexpr size_t kBytes = 700'000;
  std::vector<uint64_t> digests;
  for (uint64_t v = 0; v <= kVersions; v++) digests.push_back(digestOf(filled(kBytes, v)));
  std::atomic<uint64_t> newest{0};
  std::atomic<int> whole{0}, torn{0}, other{0};
  std::vector<std::thread> readers;
  for (size_t r = 0; r < 3; r++)
    readers.emplace_back([&, r] {
      Bytes into(kBytes);
      while (newest.load() < kVersions) {
        const uint64_t v = newest.load();
        if (v == 0) continue;
        const auto pulled =
            pullInto(into, pullOf({store->addresses()[r % 2]}, {1, v}, into, digests[v]), patienceOf(never));
        if (pulled.ok()) (digestOf(into) == digests[v] ? whole : torn)++;
        else if (pulled.status().code != Code::Gone) other++, std::printf("%s\n", pulled.status().message.c_str());
      }
    });
  for (uint64_t v = 1; v <= kVersions; v++) {
    REQUIRE_OK(store->publish({1, v}, {{"weights", filled(kBytes, v)}}, never));
    // However slow the readers are: the last version but one stays until one of them had a version.
    const Deadline until = Deadline::in(Milliseconds(10'000));
    while (v == kVersions && whole == 0 && !until.passed()) std::this_thread::yield();
    newest = v;
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(torn == 0 && other == 0 && whole > 0);
}

TEST("an abort ends a pull that waits, and a closed store serves nobody") {
  const TemporaryFolder folder;
  Abort abort;
  const auto store = openStore(folder.path(), "a");
  const std::vector<std::string> addresses = store->addresses();
  store->close();
  store->close();
  CHECK(store->publish({1, 1}, {}, abort).status().code == Code::Closed);
  Bytes into(10);
  CHECK(pull(pullOf(addresses, {1, 1}, into, 0), patienceOf(abort)).status().code == Code::Unreachable);
  abort.request();
  CHECK(pull(pullOf(addresses, {1, 1}, into, 0), patienceOf(abort)).status().code == Code::Aborted);
}

TEST("a socket path over the limit is refused with its length") {
  const auto store = VersionStore::open({keyOf("k"), "job", "m", "/tmp/" + std::string(120, 'x'), {}, 1024, 2});
  CHECK(store.status().code == Code::InvalidArgument);
}
