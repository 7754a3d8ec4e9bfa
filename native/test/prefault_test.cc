// Pages before they are used: all of them, on several threads, no longer than is wanted, and none that nobody uses.
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "check.h"
#include "core/block_digest.h"
#include "core/mesh_formation.h"
#include "core/numa.h"
#include "core/prefault.h"
#include "core/shared_memory.h"
#include "core/version_store.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

size_t residentOf(std::span<const uint8_t> memory) {
  constexpr size_t kPage = 4096;
  std::vector<unsigned char> pages((memory.size() + kPage - 1) / kPage);
  if (::mincore(const_cast<uint8_t*>(memory.data()), memory.size(), pages.data()) != 0) return 0;
  size_t there = 0;
  for (const unsigned char page : pages) there += (page & 1) != 0 ? kPage : 0;
  return there;
}

MeshOptions meshOf(uint32_t rank, std::vector<std::string> hosts) {
  MeshOptions options;
  options.rank = rank;
  options.shards = 8;
  options.shardElements = 1'000'003;
  for (size_t i = 0; i < hosts.size(); i++) {
    options.members.emplace_back(1, static_cast<char>(0x61 + i));
    options.places.push_back({hosts[i], "tcp:127.0.0.1:1"});
  }
  return options;
}

// How many elements of each shard, and of the result, the ranks of a host back together; no element twice.
std::vector<size_t> backedBy(const std::vector<uint32_t>& ranks, const std::vector<std::string>& hosts) {
  std::vector<std::vector<bool>> taken(9, std::vector<bool>(1'000'003, false));
  std::vector<size_t> counts(9, 0);
  for (const uint32_t rank : ranks) {
    for (const ShardPart& part : meshOf(rank, hosts).residents()) {
      for (size_t i = part.elements.begin; i < part.elements.end; i++) {
        CHECK(!taken[part.shard][i]);
        taken[part.shard][i] = true;
        counts[part.shard]++;
      }
    }
  }
  return counts;
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST("prefaulted memory has all its pages, whatever the number of threads, and keeps its bytes") {
  for (const size_t threads : {1, 2, 4, 9}) {
    Result<Segment> made = createSegment("muster-test", 96 * kMiB, Access::ReadWrite);
    REQUIRE_OK(made);
    uint8_t* const data = made.value().mapping.data();
    data[5 * kMiB + 1] = 42;
    const std::span<uint8_t> parts[] = {{data + 100, 3 * kMiB}, {data + 7 * kMiB - 1, 70 * kMiB}, {data, 0}};
    CHECK(prefault(parts, threads, [] { return true; }));
    for (const std::span<uint8_t>& part : parts) {
      const size_t skip = reinterpret_cast<uintptr_t>(part.data()) % 4096;
      CHECK(residentOf({part.data() - skip, part.size() + skip}) >= part.size());
    }
    CHECK(data[5 * kMiB + 1] == 42);
  }
}

TEST("the pieces of several threads cover every byte once") {
  alignas(4096) static uint8_t memory[1 << 16];
  for (const size_t step : {64, 4096, 1 << 20}) {
    const std::span<uint8_t> ranges[] = {{memory + 3, 10'000}, {memory + 20'000, 1}, {memory + 30'000, 30'000}};
    std::multiset<const uint8_t*> seen;
    for (const std::span<uint8_t>& piece : piecesOf(ranges, step)) {
      CHECK(!piece.empty() && piece.size() <= step);
      for (const uint8_t& each : piece) seen.insert(&each);
    }
    CHECK(seen.size() == 40'001);
    for (const std::span<uint8_t>& range : ranges)
      for (const uint8_t& each : range) CHECK(seen.count(&each) == 1);
  }
}

TEST("prefaulting ends soon after it is not wanted any more") {
  Result<Segment> made = createSegment("muster-test", 512 * kMiB, Access::ReadWrite);
  REQUIRE_OK(made);
  const std::span<uint8_t> all{made.value().mapping.data(), made.value().mapping.size()};
  std::atomic<int> asked{0};
  CHECK(!prefault(std::span(&all, 1), 2, [&] { return ++asked <= 2; }));
  CHECK(residentOf(all) < all.size());
}

TEST("the ranks of a host share out what is surely used there, and back nothing that only other hosts use") {
  const std::vector<size_t> alone = backedBy({0, 1, 2}, {"a", "a", "a"});
  for (const size_t count : alone) CHECK(count == 1'000'003);
  const std::vector<std::string> hosts{"a", "b", "a", "c"};
  for (const std::vector<uint32_t>& host : std::vector<std::vector<uint32_t>>{{0, 2}, {1}, {3}}) {
    const std::vector<size_t> counts = backedBy(host, hosts);
    CHECK(counts[8] == 1'000'003);  // the result
    size_t summed = 0;
    for (const uint32_t rank : host) summed += sliceOf(1'000'003, rank, 4).end - sliceOf(1'000'003, rank, 4).begin;
    for (size_t shard = 0; shard < 8; shard++) CHECK(counts[shard] == summed);
  }
}

TEST("a rank of a group backs its own input and its share of the result") {
  MeshOptions options = meshOf(2, {"a", "b", "a"});
  options.group = std::string("group");
  options.shards = 5;
  const std::vector<ShardPart> expected{{5, sliceOf(1'000'003, 1, 2)}, {2, {0, 1'000'003}}};
  CHECK(options.residents() == expected);
}

TEST("a place for a version that arrives is there before it has all its pages") {
  const TemporaryFolder folder;
  const Abort never;
  constexpr size_t kBytes = 1024 * kMiB;
  const auto store = VersionStore::open({keyOf("key"), "job", "a", folder.path(), std::nullopt, kBytes, 2}).value();
  std::vector<uint64_t> blocks(BlockDigest::countOf(kBytes), 0);
  const uint64_t root = BlockDigest::rootOf(blocks, kBytes);
  const auto began = Clock::now();
  {
    auto incoming = store->receive({0, 1}, {{"weights", 0, kBytes, root, std::move(blocks)}});
    const auto ready = Clock::now() - began;
    REQUIRE_OK(incoming);
    Result<Segment> other = createSegment("muster-test", kBytes, Access::ReadWrite);
    REQUIRE_OK(other);
    const std::span<uint8_t> all{other.value().mapping.data(), kBytes};
    const auto start = Clock::now();
    CHECK(prefault(std::span(&all, 1), 4, [] { return true; }));
    CHECK(ready < (Clock::now() - start) / 2);
  }
  // Given up in the middle: the place is free for the next one, which has all of its bytes.
  const Bytes weights(8 * kMiB, 7);
  REQUIRE_OK(store->publish({0, 2}, {{"weights", weights}}, never));
  store->close();
}

TEST("lists of nodes as the kernel writes them") {
  CHECK((parseNodeList("0") == std::vector<unsigned>{0}));
  CHECK((parseNodeList("0-2,8") == std::vector<unsigned>{0, 1, 2, 8}));
  for (const char* bad : {"", "x", "3-1", "0-99999999", "1,,2", "-"}) CHECK(parseNodeList(bad).empty());
}

TEST("memory that all processes read is spread over the nodes that this one may use, where there are several") {
  const TemporaryFolder folder;
  const NumaPlaces places{folder.path() + "/has_memory", folder.path() + "/status"};
  const auto maskFor = [&](const std::string& nodes, const std::string& allowed) {
    write(places.nodes, nodes);
    write(places.status, std::string("Name:\tnode\nMems_allowed_list:\t").append(allowed).append("\nVmRSS: 1\n"));
    std::vector<unsigned long> asked;
    const auto interleave = [&](uint8_t*, size_t bytes, const std::vector<unsigned long>& mask) {
      CHECK(bytes == 64);
      asked = mask;
    };
    uint8_t memory[64];
    spreadOverNodes(memory, sizeof memory, memoryNodes(places), interleave);
    return asked;
  };
  CHECK(maskFor("0", "0").empty());
  CHECK(maskFor("0-1", "0").empty());
  CHECK((maskFor("0-1", "0-1") == std::vector<unsigned long>{3}));
  CHECK((maskFor("0,2,70", "0-1023") == std::vector<unsigned long>{5, 64}));
  CHECK(maskFor("rubbish", "0-1").empty());
  CHECK(memoryNodes({folder.path() + "/none", places.status}).empty());
}
