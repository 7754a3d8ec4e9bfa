// Ten thousand epochs in one process: what a mesh or group takes from the kernel, it gives back.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "collectives_suite.h"
#include "core/group.h"
#include "core/mesh.h"
#include "core/version_store.h"

using namespace muster;
using namespace muster::test;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kEpochs = 1'000;  // sanitizers look at something else, and are slow at threads
constexpr size_t kBytesMore = size_t{1} << 40;  // and keep what is freed
#else
constexpr uint64_t kEpochs = 10'000;
constexpr size_t kBytesMore = size_t{8} << 20;  // the allocator grows by 2 MiB; a leak of 4 KiB in an epoch is 40 MiB
#endif

size_t entriesOf(const char* folder) {
  const auto all = std::filesystem::directory_iterator(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Mappings of shared segments; the allocator's own come and go.
size_t segmentsMapped() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:") != std::string::npos;
  return count;
}

// Bytes of this process that lie in memory, without shared segments, which are counted by themselves.
size_t bytesInMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  return 0;
}

struct Taken {
  size_t files = entriesOf("/proc/self/fd");
  size_t threads = entriesOf("/proc/self/task");
  size_t segments = segmentsMapped();
  size_t bytes = bytesInMemory();
};

MeshOptions optionsOf(const TemporaryFolder& folder, uint64_t epoch, uint32_t rank, uint32_t worldSize) {
  MeshOptions options{keyOf("key"), "job", epoch, rank, {}, folder.path(), 2, 100};
  for (uint32_t r = 0; r < worldSize; r++) options.members.push_back("member-" + std::to_string(r));
  return options;
}

void oneEpoch(const MeshOptions& options) {
  const Abort never;
  const auto mesh = Mesh::open(options, patienceOf(never));
  REQUIRE_OK(mesh);
  if (options.rank == 0) REQUIRE_OK(mesh.value()->reduce({1, {0, 1}}, patienceOf(never)));
  else REQUIRE_OK(mesh.value()->reduce({1, {}}, patienceOf(never)));
  mesh.value()->close();
  MeshOptions named = options;
  named.group = "group";
  const auto group = Group::open(named, 400, patienceOf(never));
  REQUIRE_OK(group);
  REQUIRE_OK(group.value()->run(operationOf(Operation::Kind::AllReduce, DType::F32, 100), patienceOf(never)));
}

}  // namespace

TEST("ten thousand epochs leave no file descriptor, no thread, no mapping and no memory behind") {
  const TemporaryFolder folder;
  std::vector<std::shared_ptr<VersionStore>> stores;
  std::vector<MeshPlace> places;
  for (uint32_t rank = 0; rank < 2; rank++) {
    const std::string member = "member-" + std::to_string(rank);
    stores.push_back(VersionStore::open({keyOf("key"), "job", member, folder.path(), std::string("127.0.0.1"), 1024, 2}).value());
    places.push_back({"host-" + std::to_string(rank), stores.back()->addresses()[1]});
  }
  Taken before;
  for (uint64_t epoch = 1; epoch <= kEpochs; epoch++) {
    if (epoch % 50 == 0) {
      onRanks(2, [&](uint32_t rank) {
        MeshOptions options = optionsOf(folder, epoch, rank, 2);
        if (epoch % 200 == 0) {
          options.places = places;
          options.store = stores[rank];
        }
        oneEpoch(options);
      });
    } else {
      oneEpoch(optionsOf(folder, epoch, 0, 1));
    }
    if (epoch == 200) before = Taken();  // each way was gone once
  }
  // A store forgets who called at it within its next look, 50 ms later.
  const Deadline until = Deadline::in(Milliseconds(5'000));
  while (entriesOf("/proc/self/fd") > before.files && !until.passed()) std::this_thread::yield();
  const Taken after;
  CHECK(after.files <= before.files);
  CHECK(after.threads <= before.threads);
  CHECK(after.segments <= before.segments);
  CHECK(before.bytes > 0);
  std::printf("%zu KiB more after %zu epochs\n", (after.bytes - std::min(before.bytes, after.bytes)) >> 10, size_t{kEpochs});
  CHECK(after.bytes <= before.bytes + kBytesMore);
}
