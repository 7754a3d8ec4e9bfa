// Versions that cross as deltas: the same bytes, fewer of them on the wire, and whole versions wherever a delta is of no use.
#include <random>
#include <thread>

#include "check.h"
#include "core/block_digest.h"
#include "core/delta_base.h"
#include "core/pull.h"
#include "puppet.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr size_t kBytes = 3'500'001;  // thirteen blocks and a part of one, and half an element

Bytes randomBytes(uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(kBytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// One element of a hundred is one larger.
Bytes after(const Bytes& base, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes = base;
  for (size_t at = 0; at + 2 <= bytes.size(); at += 2) bytes[at] = static_cast<uint8_t>(bytes[at] + (random() % 100 == 0));
  return bytes;
}

constexpr DeltaOptions kAlways{DeltaMode::Always, 0, 4};

struct Job {
  TemporaryFolder folder;
  Abort never;

  std::shared_ptr<VersionStore> store(const std::string& member, DeltaOptions delta = kAlways) const {
    StoreOptions options{keyOf("key"), "job", member, folder.path(), std::string("127.0.0.1"), size_t{4} << 20, 2, delta};
    return VersionStore::open(options).value();
  }
  void publish(VersionStore& store, uint64_t version, const Bytes& weights) const {
    CHECK(store.publish({1, version}, {{"weights", weights}}, never).ok());
  }
  Result<Pulled> pullFrom(const std::vector<std::string>& holders, uint64_t version, const Bytes& weights,
                          const std::shared_ptr<VersionStore>& keepIn) const {
    PullOptions options{keyOf("key"), "job", "reader", {}, {1, version}, {{"weights", weights.size(), digestOf(weights)}}, keepIn};
    for (const std::string& holder : holders) options.holders.push_back(parseAddress(holder).value());
    return pull(options, patienceOf(never));
  }
};

std::string tcpOf(const VersionStore& store) { return store.addresses()[1]; }

bool has(const Result<Pulled>& pulled, const Bytes& weights) {
  if (!pulled.ok()) std::printf("%s\n", pulled.status().message.c_str());
  return pulled.ok() && std::ranges::equal(pulled.value().sections.front(), weights);
}
bool byDelta(const Result<Pulled>& pulled, uint64_t base) {
  return pulled.ok() && pulled.value().base == VersionId{1, base} && pulled.value().wireBytes < kBytes / 20;
}
bool whole(const Result<Pulled>& pulled) {
  return pulled.ok() && !pulled.value().base && pulled.value().wireBytes == kBytes;
}

std::vector<Section> tableOf(const Bytes& weights) {
  const Digested digested = copyAndDigest(weights, nullptr, [] { return Status{}; }).value();
  return {{"weights", 0, weights.size(), digested.root, digested.blocks}};
}

Bytes frameOf(const Bytes& base, const Bytes& target, size_t block) {
  const size_t at = block * BlockDigest::kBlockBytes, size = std::min(BlockDigest::kBlockBytes, target.size() - at);
  const Bytes delta = *DeltaEncoder().encode(ByteView(base).subspan(at, size), ByteView(target).subspan(at, size), 2, size);
  return ByteWriter().number(digestOf(base)).number(uint16_t{1}).number(static_cast<uint32_t>(delta.size())).raw(delta).bytes();
}

}  // namespace

TEST("a reader that has the version before gets what changed, and the same bytes") {
  const Job job;
  const Bytes one = randomBytes(1), two = after(one, 2);
  const auto holder = job.store("holder"), reader = job.store("reader");
  job.publish(*holder, 1, one);
  CHECK(whole(job.pullFrom({tcpOf(*holder)}, 1, one, reader)));
  job.publish(*holder, 2, two);
  const Result<Pulled> pulled = job.pullFrom({tcpOf(*holder)}, 2, two, reader);
  CHECK(has(pulled, two) && byDelta(pulled, 1));
  CHECK(reader->holds({1, 1}) && reader->holds({1, 2}));
}

TEST("a relay passes deltas on, also when it has only heard them") {
  const Job job;
  const Bytes one = randomBytes(1), two = after(one, 2);
  const auto holder = job.store("holder"), relay = job.store("relay"), last = job.store("last");
  job.publish(*holder, 1, one);
  CHECK(whole(job.pullFrom({tcpOf(*holder)}, 1, one, relay)));
  CHECK(whole(job.pullFrom({tcpOf(*relay)}, 1, one, last)));
  job.publish(*holder, 2, two);
  std::optional<Result<Pulled>> first;
  std::thread upstream([&] { first = job.pullFrom({tcpOf(*holder)}, 2, two, relay); });
  const Result<Pulled> second = job.pullFrom({tcpOf(*relay), tcpOf(*holder)}, 2, two, last);
  upstream.join();
  CHECK(has(*first, two) && byDelta(*first, 1));
  CHECK(has(second, two) && byDelta(second, 1));
  CHECK(relay->deltas().path(digestOf(one), digestOf(two)).size() == 1);
}

TEST("a reader that is several versions behind gets the deltas of all of them, though the base itself is gone") {
  const Job job;
  const auto holder = job.store("holder"), near = job.store("near"), far = job.store("far");
  std::vector<Bytes> versions{randomBytes(1)};
  for (uint64_t next = 1; next < 4; next++) versions.push_back(after(versions.back(), next));
  for (uint64_t version = 0; version < 4; version++) {
    job.publish(*holder, version, versions[version]);
    CHECK(has(job.pullFrom({tcpOf(*holder)}, version, versions[version], near), versions[version]));
    if (version == 0) CHECK(has(job.pullFrom({tcpOf(*holder)}, 0, versions[0], far), versions[0]));
  }
  CHECK(!holder->holds({1, 0}) && !holder->holds({1, 1}));
  const Result<Pulled> pulled = job.pullFrom({tcpOf(*holder)}, 3, versions[3], far);
  CHECK(has(pulled, versions[3]) && byDelta(pulled, 0));
}

TEST("a reader that is several versions of many sections behind gets the deltas of all of them") {
  constexpr size_t kSections = 12;  // more than versions that are remembered
  const Job job;
  const auto holder = job.store("holder"), near = job.store("near"), far = job.store("far");
  std::vector<Bytes> contents;
  for (size_t i = 0; i < kSections; i++) {
    const Bytes all = randomBytes(i);
    contents.emplace_back(all.begin(), all.begin() + 262'144 + static_cast<long>(i));
  }
  const auto pullBy = [&](uint64_t version, const std::shared_ptr<VersionStore>& keepIn) {
    PullOptions options{keyOf("key"), "job", "reader", {parseAddress(tcpOf(*holder)).value()}, {1, version}, {}, keepIn};
    for (size_t i = 0; i < kSections; i++) options.wanted.push_back({"tensor-" + std::to_string(i), contents[i].size(), digestOf(contents[i])});
    return pull(options, patienceOf(job.never));
  };
  for (uint64_t version = 0; version < 4; version++) {
    std::vector<SectionInput> inputs;
    for (size_t i = 0; i < kSections; i++) {
      if (version > 0) contents[i] = after(contents[i], version);
      inputs.push_back({"tensor-" + std::to_string(i), contents[i]});
    }
    REQUIRE_OK(holder->publish({1, version}, inputs, job.never));
    REQUIRE_OK(pullBy(version, near));
    if (version == 0) REQUIRE_OK(pullBy(0, far));
  }
  CHECK(!holder->holds({1, 0}) && !holder->holds({1, 1}));
  const Result<Pulled> pulled = pullBy(3, far);
  REQUIRE_OK(pulled);
  CHECK(pulled.value().base == VersionId(1, 0) && pulled.value().wireBytes < pulled.value().bytes / 4);
  std::printf("       %llu of %llu bytes crossed\n", static_cast<unsigned long long>(pulled.value().wireBytes), static_cast<unsigned long long>(pulled.value().bytes));
}

TEST("a reader with a base that the holder does not know gets the whole version") {
  const Job job;
  const Bytes other = randomBytes(8), two = after(randomBytes(1), 2);
  const auto holder = job.store("holder"), reader = job.store("reader");
  job.publish(*reader, 1, other);
  job.publish(*holder, 2, two);
  const Result<Pulled> pulled = job.pullFrom({tcpOf(*holder)}, 2, two, reader);
  CHECK(has(pulled, two) && whole(pulled));
}

TEST("a version in which everything changed is sent as it is") {
  const Job job;
  const Bytes one = randomBytes(1), two = randomBytes(2);
  const auto holder = job.store("holder"), reader = job.store("reader");
  job.publish(*holder, 1, one);
  CHECK(has(job.pullFrom({tcpOf(*holder)}, 1, one, reader), one));
  job.publish(*holder, 2, two);
  const Result<Pulled> pulled = job.pullFrom({tcpOf(*holder)}, 2, two, reader);
  CHECK(has(pulled, two) && whole(pulled));
}

TEST("a delta that does not come to the block announced is refused, and the rest comes whole from the same holder") {
  const Bytes one = randomBytes(1), two = after(one, 2), wrong = after(one, 3);
  const std::vector<std::function<Bytes(size_t)>> lies = {
      [&](size_t block) { return frameOf(one, wrong, block); },   // another target
      [&](size_t block) { return frameOf(two, wrong, block); },   // another base
      [&](size_t) { return Bytes(100, 0xff); },                   // no delta at all
      [&](size_t) { return ByteWriter().number(digestOf(one)).number(uint16_t{60'000}).bytes(); },
      [&](size_t) { return Bytes(); },
  };
  for (const auto& lie : lies) {
    const Job job;
    const auto reader = job.store("reader");
    job.publish(*reader, 1, one);
    Puppet puppet([&](Connection& connection, const PullRequest& request) {
      const Patience patience{Deadline::in(Milliseconds(5'000)), &job.never};
      CHECK(connection.send({FrameType::Grant, encodeSections(tableOf(two))}, patience).ok());
      if (request.offset == 0 && !request.bases.empty()) {
        CHECK(connection.send({FrameType::Delta, frameOf(one, two, 0), 0}, patience).ok());
        CHECK(connection.send({FrameType::Delta, lie(1), BlockDigest::kBlockBytes}, patience).ok());
        return;
      }
      CHECK(request.bases.empty() && request.offset == BlockDigest::kBlockBytes);
      for (size_t at = request.offset; at < two.size(); at += 500'000)
        if (!connection.send({FrameType::Data, ByteView(two).subspan(at, std::min<size_t>(500'000, two.size() - at)), at}, patience).ok()) return;
      CHECK(connection.send({FrameType::End}, patience).ok());
    });
    const Result<Pulled> pulled = job.pullFrom({puppet.address()}, 2, two, reader);
    CHECK(has(pulled, two) && puppet.served() == 2);
    const Result<VersionArena::Lease> before = reader->lease({1, 1});
    CHECK(before.ok() && std::memcmp(before.value().data(), one.data(), one.size()) == 0);
  }
}

TEST("a holder that dies in the middle of a delta costs its successor nothing: the next goes on with deltas") {
  const Job job;
  const Bytes one = randomBytes(1), two = after(one, 2);
  const auto holder = job.store("holder"), reader = job.store("reader");
  job.publish(*holder, 1, one);
  CHECK(has(job.pullFrom({tcpOf(*holder)}, 1, one, reader), one));
  job.publish(*holder, 2, two);
  Puppet dying([&](Connection& connection, const PullRequest& request) {
    const Patience patience{Deadline::in(Milliseconds(5'000)), &job.never};
    CHECK(request.bases.size() == 1);
    CHECK(connection.send({FrameType::Grant, encodeSections(tableOf(two))}, patience).ok());
    CHECK(connection.send({FrameType::Delta, frameOf(one, two, 0), 0}, patience).ok());
    const Bytes half = frameOf(one, two, 1);
    const EncodedHeader header = encodeHeader(FrameType::Delta, half, BlockDigest::kBlockBytes);
    const UniqueFd socket = connection.takeSocket();
    CHECK(::write(socket.get(), header.data(), header.size()) == static_cast<ssize_t>(header.size()));
    CHECK(::write(socket.get(), half.data(), half.size() / 2) == static_cast<ssize_t>(half.size() / 2));
  });
  const Result<Pulled> pulled = job.pullFrom({dying.address(), tcpOf(*holder)}, 2, two, reader);
  CHECK(has(pulled, two) && byDelta(pulled, 1));
  CHECK(pulled.value().from == tcpOf(*holder));
}

TEST("deltas are asked for where they were faster, and every so often a version comes whole") {
  DeltaChoice choice({DeltaMode::Auto, 10, 4});
  CHECK(choice.asks("tcp:a", {1, 1}));
  CHECK(!choice.asks("tcp:a", {1, 20}));
  choice.learn("tcp:a", false, 100 << 20, 0.1);
  CHECK(choice.asks("tcp:a", {1, 2}));
  choice.learn("tcp:a", true, 100 << 20, 0.2);
  CHECK(!choice.asks("tcp:a", {1, 3}));
  CHECK(choice.asks("tcp:a", {1, 11}));  // looks again behind an anchor
  CHECK(choice.asks("tcp:b", {1, 3}));
  choice.learn("tcp:a", true, 100 << 20, 0.05);
  CHECK(choice.asks("tcp:a", {1, 4}));
  CHECK(DeltaChoice({DeltaMode::Always, 10, 4}).asks("tcp:a", {1, 3}));
  CHECK(!DeltaChoice({DeltaMode::Never, 0, 4}).asks("tcp:a", {1, 3}));
}

TEST("the log of deltas forgets the oldest versions, by number and by bytes, and knows no way that is not whole") {
  const auto delta = [](size_t bytes) { return std::make_shared<const Bytes>(bytes); };
  DeltaLog log(2, 1000);
  log.put({1, 2}, {0, 2}, delta(10), {1, 2});
  CHECK(log.path(1, 2).empty());
  log.put({1, 2}, {1, 2}, nullptr, {1, 2});
  CHECK(log.path(1, 2).size() == 1 && log.find({1, 2}, 1) == DeltaLog::Block{});
  log.put({12, 13}, {0, 1}, delta(10), {1, 2});  // another section of the same version
  log.put({2, 1}, {0, 1}, delta(10), {1, 3});
  CHECK(log.path(1, 2).size() == 1 && log.path(12, 13).size() == 1);
  CHECK(log.path(1, 3).empty());  // and does not go round in circles
  log.put({2, 3}, {0, 1}, delta(10), {1, 4});
  CHECK(log.path(1, 2).empty() && log.path(12, 13).empty() && log.path(2, 3).size() == 1);
  log.put({1, 2}, {0, 2}, delta(10), {1, 2});  // older than all that it has room for
  CHECK(!log.find({1, 2}, 0) && log.path(2, 1).size() == 1);
  log.put({2, 1}, {0, 1}, delta(10), {1, 4});  // a part of a newer version, too
  log.put({3, 4}, {0, 1}, delta(980), {1, 5});
  CHECK(log.path(2, 3).size() == 1 && log.path(2, 1).size() == 1 && log.path(3, 4).size() == 1);
  log.put({4, 5}, {0, 1}, delta(30), {1, 5});  // by bytes the versions before it make room
  CHECK(log.path(2, 3).empty() && log.path(2, 1).empty() && log.path(3, 4).empty() == false && log.path(4, 5).empty());
  log.put({5, 6}, {7, 1}, delta(1), {1, 6});
  CHECK(!log.find({5, 6}, 7));
}
