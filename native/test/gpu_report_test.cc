// What the host is said to offer: with both libraries, without, with old ones, with broken ones.
#include "gpu/gpu_report.h"
#include "gpu_support.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

TEST("driver, devices and NCCL are reported with their versions and what follows") {
  const FakeGpu fake;
  fake.set("devices", 2);
  const Abort never;
  const auto report = describeGpus(FakeGpu::paths(), patienceOf(never));
  REQUIRE_OK(report);
  const auto& [cuda, nccl] = report.value();
  REQUIRE_OK(cuda.status);
  REQUIRE_OK(nccl.status);
  CHECK(cuda.version == 13000 && cuda.path == MUSTER_FAKE_GPU && cuda.missing.empty());
  CHECK(cuda.devices.size() == 2 && cuda.devices[1].name == "Fake GPU 1" && cuda.devices[1].computeMajor == 9);
  CHECK(cuda.devices[0].memoryBytes == uint64_t{8} << 30 && cuda.devices[0].fileDescriptorHandles);
  CHECK(nccl.version == 22703 && nccl.shrink && nccl.grow && nccl.revoke && !nccl.severalRanksPerGpu);
}

TEST("an NCCL of 2.14 will do, and what it cannot do is named") {
  const FakeGpu fake;
  const Abort never;
  const auto report = describeGpus({MUSTER_FAKE_GPU, {"/nowhere/libnccl.so.2", MUSTER_FAKE_GPU_OLD}}, patienceOf(never));
  REQUIRE_OK(report);
  const NcclReport& nccl = report.value().nccl;
  REQUIRE_OK(nccl.status);
  CHECK(nccl.version == 21400 && !nccl.shrink && !nccl.grow && !nccl.revoke);
  CHECK((nccl.missing == std::vector<std::string>{"ncclCommShrink", "ncclCommGrow", "ncclCommRevoke"}));
  CHECK(nccl.failed.size() == 1 && nccl.failed[0].path == "/nowhere/libnccl.so.2");
  CHECK(nccl.failed[0].error.find("cannot open shared object file") != std::string::npos);
}

TEST("an NCCL that is too old, and a library that is none, are refused with the reason") {
  const FakeGpu fake;
  const Abort never;
  fake.set("ncclVersion", 21210);
  const auto old = describeGpus(FakeGpu::paths(), patienceOf(never));
  fake.set("ncclVersion", 22703);
  REQUIRE_OK(old);
  CHECK(old.value().nccl.status.code == Code::Unsupported);
  CHECK(old.value().nccl.status.message.find("2.14 is needed") != std::string::npos);
  const auto other = describeGpus({"libm.so.6", {"libm.so.6"}}, patienceOf(never));
  REQUIRE_OK(other);
  CHECK(other.value().nccl.status.message.find("has no ncclGetVersion, ncclGetUniqueId") != std::string::npos);
  CHECK(other.value().cuda.status.message.find("has no cuInit") != std::string::npos);
}

TEST("a host without the libraries says what was tried and what the linker said") {
  const Abort never;
  const auto report = describeGpus({"/nowhere/libcuda.so.1", {"/a/libnccl.so.2", "/b/libnccl.so.2"}}, patienceOf(never));
  REQUIRE_OK(report);
  CHECK(report.value().cuda.status.code == Code::Unsupported);
  CHECK(report.value().cuda.failed.size() == 1 && report.value().nccl.failed.size() == 2);
  CHECK(report.value().nccl.status.message.find("/b/libnccl.so.2: ") != std::string::npos);
}

TEST("a driver without a device, and one that fails, are told apart from no driver") {
  const FakeGpu fake;
  const Abort never;
  fake.set("devices", 0);
  const auto none = describeGpus(FakeGpu::paths(), patienceOf(never));
  REQUIRE_OK(none);
  CHECK(none.value().cuda.status.ok() && none.value().cuda.devices.empty());
  fake.set("cuInit", cuda::kNoDevice);
  const auto failing = describeGpus(FakeGpu::paths(), patienceOf(never));
  REQUIRE_OK(failing);
  CHECK(failing.value().cuda.status.message == "cuInit: no CUDA-capable device is detected (CUDA 100)");
}

TEST("a driver that never answers costs the deadline, and an abort ends the wait") {
  const FakeGpu fake;
  Abort abort;
  fake.set("cuInitBlocks", 1);
  const auto late = describeGpus(FakeGpu::paths(), patienceOf(abort, 30));
  CHECK(late.status().code == Code::Timeout);
  abort.request();
  CHECK(describeGpus(FakeGpu::paths(), patienceOf(abort)).status().code == Code::Aborted);
  fake.set("cuInitBlocks", 0);
  // The threads left behind end before the test does, so that they do not meet the next one.
  const Abort never;
  CHECK(describeGpus(FakeGpu::paths(), patienceOf(never)).ok());
}
