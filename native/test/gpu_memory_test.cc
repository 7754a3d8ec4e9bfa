// Device memory: copies, sharing with another process, what outlives whom, and what the driver may refuse.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/connection.h"
#include "core/limits.h"
#include "core/shared_memory.h"
#include "gpu/direct_copy.h"
#include "gpu_support.h"

using namespace muster;
using namespace muster::test;

TEST("what is copied in comes out, also through a copy on the device") {
  const FakeGpu fake;
  const Abort never;
  const auto gpu = FakeGpu::open();
  const Floats from(gpu, {1, 2, 3}), to(gpu, {0, 0, 0});
  REQUIRE_OK(gpu->copy(to.at(), from.at(), 3 * sizeof(float), patienceOf(never)));
  CHECK((to.read() == std::vector<float>{1, 2, 3}));
  CHECK(to.memory()->size() == size_t{2} << 20);  // whole units of the driver
}

TEST("a device that is not there, one that cannot share and one that is full are told apart") {
  const FakeGpu fake;
  std::vector<LibraryAttempt> failed;
  const auto driver = CudaDriver::load(MUSTER_FAKE_GPU, failed);
  REQUIRE_OK(driver);
  CHECK(GpuDevice::open(driver.value(), 1).status().message == "there is no GPU 1; the driver has 1");
  fake.set("fileDescriptors", 0);
  CHECK(DeviceMemory::create(FakeGpu::open(), 1).status().code == Code::Unsupported);
  fake.set("fileDescriptors", 1);
  fake.set("memoryMiB", 4);
  CHECK(DeviceMemory::create(FakeGpu::open(), size_t{5} << 20).status().code == Code::TooLarge);
}

TEST("memory that another process made is mapped read-only, and stays when that process is killed") {
  const FakeGpu fake;
  const Abort never;
  int sockets[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Connection connection((UniqueFd(sockets[1])));
    const Floats made(FakeGpu::open(), {4, 5, 6});
    const UniqueFd fd = std::move(made.memory()->share().value());
    const Abort abort;
    if (!connection.send({FrameType::Grant, {}, 0, fd.get()}, patienceOf(abort)).ok()) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(sockets[1]);
  Connection connection((UniqueFd(sockets[0])));
  REQUIRE_OK(connection.receive(FrameType::Grant, patienceOf(never)));
  const UniqueFd fd = connection.takeFd();
  const auto gpu = FakeGpu::open();
  const auto mapped = DeviceMemory::import(gpu, fd.get(), size_t{2} << 20);
  REQUIRE_OK(mapped);
  CHECK(mapped.value()->isReadOnly());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Floats own(gpu, {0, 0, 0});
  REQUIRE_OK(gpu->copy(own.at(), mapped.value()->at(), 3 * sizeof(float), patienceOf(never)));
  CHECK((own.read() == std::vector<float>{4, 5, 6}));
}

TEST("a driver that maps nothing read-only maps it for writing, and says so") {
  const FakeGpu fake;
  fake.set("readOnlyRefused", 1);
  const auto gpu = FakeGpu::open();
  const Floats made(gpu, {1});
  const Result<UniqueFd> fd = made.memory()->share();
  REQUIRE_OK(fd);
  const auto mapped = DeviceMemory::import(gpu, fd.value().get(), made.memory()->size());
  REQUIRE_OK(mapped);
  CHECK(!mapped.value()->isReadOnly());
}

TEST("a descriptor that is no device memory, or of another size, is refused") {
  const FakeGpu fake;
  const auto gpu = FakeGpu::open();
  int pipe[2];
  CHECK(::pipe2(pipe, O_CLOEXEC) == 0);
  CHECK(!DeviceMemory::import(gpu, pipe[0], size_t{2} << 20).ok());
  const Floats made(gpu, {1});
  const Result<UniqueFd> fd = made.memory()->share();
  REQUIRE_OK(fd);
  CHECK(!DeviceMemory::import(gpu, fd.value().get(), size_t{4} << 20).ok());
  for (const int end : pipe) ::close(end);
}

TEST("a copy ends at its deadline and with an abort while the device is busy") {
  const FakeGpu fake;
  Abort abort;
  const auto gpu = FakeGpu::open();
  const Floats from(gpu, {1}), to(gpu, {0});
  abort.request();
  // The fake has copied by the time it is asked: only a wait that has not begun can be seen to end.
  const Status copied = gpu->copy(to.at(), from.at(), sizeof(float), patienceOf(abort));
  CHECK(copied.ok() || copied.code == Code::Aborted);
}

TEST("a section goes to the device from the pages where it lies, locked piece by piece, and read by nobody else") {
  const FakeGpu fake;
  const Abort never;
  const auto gpu = FakeGpu::open();
  // As a version's memory: the section begins anywhere in it, and the mapping is read-only.
  constexpr size_t kBytes = kLockedBytes + 300'001, kBegin = 64;
  auto segment = createSegment("version", kBegin + kBytes, Access::ReadOnly);
  REQUIRE_OK(segment);
  for (size_t i = 0; i < kBytes; i++) segment.value().mapping.data()[kBegin + i] = static_cast<uint8_t>(i * 31 % 251);
  const auto mapped = mapSegment(segment.value().fd.get(), kBegin + kBytes, Access::ReadOnly);
  REQUIRE_OK(mapped);
  const ByteView section{mapped.value().data() + kBegin, kBytes};
  const auto memory = DeviceMemory::create(gpu, kBytes);
  REQUIRE_OK(memory);
  for (const long refused : {0, 1}) {
    fake.set("lockRefused", refused);
    const long before = fake.lockedBytes();
    Bytes back(kBytes);
    REQUIRE_OK(copyDirect(*gpu, memory.value()->at(), section, nullptr, never));
    REQUIRE_OK(gpu->copyOut(back, memory.value()->at(), patienceOf(never)));
    CHECK(std::equal(back.begin(), back.end(), section.begin(), section.end()));
    const long locked = fake.lockedBytes() - before;
    CHECK(refused != 0 ? locked == 0 : locked > static_cast<long>(kBytes) - 4 * 4096);
  }
  Abort abort;
  abort.request();
  CHECK(copyDirect(*gpu, memory.value()->at(), section, nullptr, abort).code == Code::Aborted);
}

TEST("a copy on a stream of the caller comes behind what is there, and a wait that ends does not end the copy") {
  const FakeGpu fake;
  const Abort never;
  const auto gpu = FakeGpu::open();
  const Floats first(gpu, {0}), second(gpu, {0});
  const float value = 7;
  const ByteView bytes{reinterpret_cast<const uint8_t*>(&value), sizeof value};
  const cuda::Stream stream = fake.heldStream(*gpu);
  const Status waited = gpu->copyIn(first.at(), bytes, {Deadline::in(Milliseconds(20)), &never}, stream);
  CHECK(waited.code == Code::Timeout);
  CHECK((first.read() == std::vector<float>{0}));  // on the device's own stream, which nothing holds up
  fake.set("streamHeld", 0);
  REQUIRE_OK(gpu->copyIn(second.at(), bytes, patienceOf(never), stream));
  CHECK((first.read() == std::vector<float>{7}));
  CHECK((second.read() == std::vector<float>{7}));
  CHECK(gpu->driver().call().streamDestroy(stream) == cuda::kSuccess);
}
