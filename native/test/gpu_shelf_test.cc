// Versions in device memory, taken by other processes: what is refused, and what outlives whom.
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>

#include "gpu/device_shelf.h"
#include "gpu_support.h"

using namespace muster;
using namespace muster::test;

namespace {

std::shared_ptr<DeviceShelf> shelfIn(const std::string& folder) {
  const auto shelf = DeviceShelf::open({keyOf("key"), "job", "trainer", folder, 2});
  CHECK(shelf.ok());
  return shelf.value();
}

constexpr uint64_t kDigest = 77;

TakeOptions takeOf(const std::string& address, VersionId id) {
  return {keyOf("key"), "job", "sampler", address, {id, kDigest}};
}

Status takeFrom(const std::shared_ptr<GpuDevice>& gpu, const TakeOptions& options) {
  const Abort never;
  return takeVersion(gpu, options, patienceOf(never)).status();
}

}  // namespace

TEST("a version is the same memory for its reader, and stays when it is taken off the shelf") {
  const FakeGpu fake;
  const TemporaryFolder folder;
  const Abort never;
  const auto gpu = FakeGpu::open();
  const auto shelf = shelfIn(folder.path());
  const Floats first(gpu, {1, 2, 3});
  REQUIRE_OK(shelf->put({{1, 1}, kDigest}, first.memory(), 12));
  const auto taken = takeVersion(gpu, takeOf(shelf->address(), {1, 1}), patienceOf(never));
  REQUIRE_OK(taken);
  CHECK(taken.value().bytes == 12 && taken.value().memory->isReadOnly());
  for (uint64_t v = 2; v <= 4; v++) REQUIRE_OK(shelf->put({{1, v}, kDigest}, Floats(gpu, {0}).memory(), 4));
  CHECK(takeFrom(gpu, takeOf(shelf->address(), {1, 1})).code == Code::Gone);
  shelf->close();
  shelf->close();
  CHECK(shelf->put({{1, 5}, kDigest}, first.memory(), 12).code == Code::Closed);
  CHECK(takeFrom(gpu, takeOf(shelf->address(), {1, 4})).code == Code::Unreachable);
  const Floats own(gpu, {0, 0, 0});
  REQUIRE_OK(gpu->copy(own.at(), taken.value().memory->at(), 12, patienceOf(never)));
  CHECK((own.read() == std::vector<float>{1, 2, 3}));
}

TEST("another key, another job, another digest and other memory under the same id are refused") {
  const FakeGpu fake;
  const TemporaryFolder folder;
  const auto gpu = FakeGpu::open();
  const auto shelf = shelfIn(folder.path());
  const Floats first(gpu, {1}), second(gpu, {2});
  REQUIRE_OK(shelf->put({{1, 1}, kDigest}, first.memory(), 4));
  CHECK(shelf->put({{1, 1}, kDigest}, first.memory(), 4).ok());
  CHECK(shelf->put({{1, 1}, kDigest}, second.memory(), 4).code == Code::Conflict);
  CHECK(shelf->put({{1, 1}, kDigest + 1}, first.memory(), 4).code == Code::Conflict);
  TakeOptions options = takeOf(shelf->address(), {1, 1});
  options.key = keyOf("other");
  CHECK(takeFrom(gpu, options).code == Code::Refused);
  options = takeOf(shelf->address(), {1, 1});
  options.wanted.digest++;
  CHECK(takeFrom(gpu, options).code == Code::DigestMismatch);
  options = takeOf(shelf->address(), {1, 1});
  options.job = "other";
  CHECK(takeFrom(gpu, options).code == Code::Refused);
}

TEST("a version that lies on another GPU is refused by name, and a driver that tells no name refuses nothing") {
  const FakeGpu fake;
  const TemporaryFolder folder;
  const auto gpu = FakeGpu::open();
  const auto shelf = shelfIn(folder.path());
  const Floats first(gpu, {1});
  REQUIRE_OK(shelf->put({{1, 1}, kDigest}, first.memory(), 4));
  CHECK(takeFrom(FakeGpu::open(), takeOf(shelf->address(), {1, 1})).ok());
  fake.set("gpu", 7);
  const Status elsewhere = takeFrom(FakeGpu::open(), takeOf(shelf->address(), {1, 1}));
  CHECK(elsewhere.code == Code::Refused);
  CHECK(elsewhere.message.ends_with("on GPU-fa000000-0000-0000-0000-000000000000, not on GPU-fa000000-0000-0000-0000-000000000700"));
  fake.set("uuid", 801);  // CUDA_ERROR_NOT_SUPPORTED
  CHECK(takeFrom(FakeGpu::open(), takeOf(shelf->address(), {1, 1})).ok());
}

TEST("a caller that says nothing does not keep the next one for long") {
  const FakeGpu fake;
  const TemporaryFolder folder;
  const Abort never;
  const auto gpu = FakeGpu::open();
  const auto shelf = shelfIn(folder.path());
  const Floats first(gpu, {1});
  REQUIRE_OK(shelf->put({{1, 1}, kDigest}, first.memory(), 4));
  const auto silent = connectTo(parseAddress(shelf->address()).value(), patienceOf(never));
  REQUIRE_OK(silent);
  CHECK(takeFrom(gpu, takeOf(shelf->address(), {1, 1})).ok());
}

TEST("a version stays with its reader when its maker is killed") {
  const FakeGpu fake;
  const TemporaryFolder folder;
  const Abort never;
  int ready[2];
  CHECK(::pipe(ready) == 0);
  const pid_t maker = ::fork();
  if (maker == 0) {
    const auto shelf = shelfIn(folder.path());
    const Floats made(FakeGpu::open(), {7, 8});
    const bool fine = shelf->put({{1, 1}, kDigest}, made.memory(), 8).ok() && ::write(ready[1], "x", 1) == 1;
    if (!fine) ::_exit(1);
    for (;;) ::pause();
  }
  char byte;
  CHECK(::read(ready[0], &byte, 1) == 1);
  const auto entry = std::filesystem::directory_iterator(folder.path());
  const auto gpu = FakeGpu::open();
  const auto taken = takeVersion(gpu, takeOf("unix:" + entry->path().string(), {1, 1}), patienceOf(never));
  REQUIRE_OK(taken);
  ::kill(maker, SIGKILL);
  ::waitpid(maker, nullptr, 0);
  const Floats own(gpu, {0, 0});
  REQUIRE_OK(gpu->copy(own.at(), taken.value().memory->at(), 8, patienceOf(never)));
  CHECK((own.read() == std::vector<float>{7, 8}));
  for (const int end : ready) ::close(end);
}
