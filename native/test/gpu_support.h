// The fake driver and NCCL for tests; see fake/fake_gpu.h. It is on as long as the object lives, and afterwards nothing may be
// left over and nothing may have been called wrongly.
#pragma once

#include <dlfcn.h>

#include <string>
#include <thread>

#include "check.h"
#include "gpu/device_memory.h"
#include "gpu/gpu_report.h"
#include "support.h"

namespace muster::test {

class FakeGpu {
 public:
  FakeGpu() : handle_(::dlopen(MUSTER_FAKE_GPU, RTLD_NOW | RTLD_LOCAL)) {
    CHECK(handle_ != nullptr);
    calm();
  }
  ~FakeGpu() {
    // What is closed gives back on threads of its own, soon.
    const Deadline soon = Deadline::in(Milliseconds(5'000));
    while (!textOf("fakeGpuLeaks").empty() && !soon.passed()) std::this_thread::yield();
    const std::string wrong = textOf("fakeGpuViolations"), left = textOf("fakeGpuLeaks");
    if (!wrong.empty() || !left.empty()) std::printf("wrong calls:\n%sleft over:\n%s", wrong.c_str(), left.c_str());
    CHECK(wrong.empty());
    CHECK(left.empty());
    calm();
  }
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  void set(const char* knob, long value) const {
    reinterpret_cast<void (*)(const char*, long)>(::dlsym(handle_, "fakeGpuSet"))(knob, value);
  }
  long lockedBytes() const { return reinterpret_cast<long (*)()>(::dlsym(handle_, "fakeGpuLockedBytes"))(); }
  // How much is in a stream that is not done yet.
  long queuedOn(cuda::Stream stream) const { return reinterpret_cast<long (*)(cuda::Stream)>(::dlsym(handle_, "fakeGpuQueued"))(stream); }
  // A stream of somebody else, which is busy as long as the knob `streamHeld` is set.
  cuda::Stream heldStream(const GpuDevice& gpu) const {
    cuda::Stream stream = nullptr;
    CHECK(gpu.bind().ok());
    CHECK(gpu.driver().call().streamCreate(&stream, cuda::kStreamNonBlocking) == cuda::kSuccess);
    set("streamHeld", 1);
    reinterpret_cast<void (*)(cuda::Stream)>(::dlsym(handle_, "fakeGpuHold"))(stream);
    return stream;
  }
  std::string violations() const { return textOf("fakeGpuViolations"); }

  static std::shared_ptr<GpuDevice> open(int index = 0) {
    std::vector<LibraryAttempt> failed;
    const auto driver = CudaDriver::load(MUSTER_FAKE_GPU, failed);
    CHECK(driver.ok());
    const auto gpu = GpuDevice::open(driver.value(), index);
    CHECK(gpu.ok());
    return gpu.value();
  }

  static GpuPaths paths() { return {MUSTER_FAKE_GPU, {MUSTER_FAKE_GPU}}; }

 private:
  // Every knob as it is by itself.
  void calm() const {
    for (const char* knob : {"cuInit", "cuInitBlocks", "initBlocks", "abortBlocks", "shrinkBlocks", "shrinkResult", "asyncError",
                             "launchResult", "collectivesHang", "readOnlyRefused", "lockRefused", "streamHeld"})
      set(knob, 0);
    set("devices", 1);
    set("fileDescriptors", 1);
    set("polls", 2);
    set("memoryMiB", 6000);
  }
  std::string textOf(const char* function) const {
    return reinterpret_cast<const char* (*)()>(::dlsym(handle_, function))();
  }

  void* handle_;
};

// Device memory that holds floats.
class Floats {
 public:
  Floats(const std::shared_ptr<GpuDevice>& gpu, std::vector<float> values) : count_(values.size()) {
    const auto made = DeviceMemory::create(gpu, count_ * sizeof(float));
    CHECK(made.ok());
    memory_ = made.value();
    write(values);
  }
  void write(const std::vector<float>& values) const {
    const Abort never;
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    CHECK(memory_->gpu().copyIn(at(), {bytes, values.size() * sizeof(float)}, patienceOf(never)).ok());
  }
  std::vector<float> read() const {
    const Abort never;
    std::vector<float> values(count_);
    auto* bytes = reinterpret_cast<uint8_t*>(values.data());
    CHECK(memory_->gpu().copyOut({bytes, count_ * sizeof(float)}, at(), patienceOf(never)).ok());
    return values;
  }
  cuda::DevicePointer at() const { return memory_->at(); }
  const std::shared_ptr<DeviceMemory>& memory() const { return memory_; }

 private:
  size_t count_;
  std::shared_ptr<DeviceMemory> memory_;
};

}  // namespace muster::test
