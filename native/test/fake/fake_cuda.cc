// The CUDA driver's part; and the fake's own controls.
//
// The driver's source is closed: what it does is said by its header. By line of cuda.h of CUDA 12.6 (CUDA_VERSION 12060):
//   cuInit before anything else, without flags                       4706-4709
//   the UUID, that of a MIG instance where there are some            4901-4903
//   a context is counted by Retain and Release                       5603, 5637
//   a call that needs a context says CUDA_ERROR_INVALID_CONTEXT      2450
//   a reservation is freed as a whole, with its own address          12275-12276
//   memory is made in multiples of the granularity                   12303-12304
//   flags are zero                                                   12257, 12333
//   memory stays while it is mapped or a handle to it is open, the descriptors for other processes included  12354-12359, 12654-12656
//   each import is released on its own                               12357-12359
//   a mapping lies in a reservation, within the memory, in multiples of the granularity, and is not accessible yet  12379-12394
//   the whole of a mapping is unmapped, and becomes a reservation    12563-12571
//   access is set for a mapped range                                 12594-12596
//   a driver may refuse to set an access (readOnlyRefused)           12610-12611
//   an event that is not reached yet says CUDA_ERROR_NOT_READY       15589, 2640
// And of CUDA 13.0 (CUDA_VERSION 13000):
//   host memory is locked for all contexts, read-only where its mapping is, and a device may not support that (lockRefused)  9473-9491
//   memory that is locked already is refused                         2908-2912
//   memory is unlocked by the address that it was locked by          9546-9549, 2914-2918
// Stricter than the driver, because what we would lose is hard to find: a stream with work on it and an event that is not reached
// yet may be destroyed there (15330-15333, 15637-15640) and are violations here. Mappings are memfds and mprotect here: what is
// written to memory that may only be read is a fault here, and whatever the device does there.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <thread>

#include "fake_gpu.h"

namespace fake {

namespace {

constexpr size_t kGranularity = size_t{2} << 20;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoContext = 201;
constexpr int kNotReady = 600;
constexpr int kAlreadyRegistered = 712;
constexpr int kNotRegistered = 713;
constexpr int kNotSupported = 801;

struct Event {
  bool recorded = false;
  bool reached = true;
  Stream* stream = nullptr;
};

struct Memory {
  int fd;
  size_t bytes;
  bool imported = false;
};

struct Cuda {
  std::atomic<bool> initialised = false;
  long contexts = 0;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::map<uint64_t, Memory> memory;
  std::map<uint64_t, size_t> reserved;
  std::map<uint64_t, size_t> mapped;
  std::map<uintptr_t, size_t> locked;           // host memory by its address
  std::multimap<uintptr_t, size_t> reading;     // what copies that are queued will read
  size_t lockedBytes = 0;                       // that were read from locked memory
  uint64_t nextHandle = 1;
};

Cuda& cuda() {
  static Cuda one;
  return one;
}

int contextOfDevice = 0;  // its address is the context
thread_local void* current = nullptr;

int need(bool fine, const char* what, int otherwise = kInvalidValue) {
  if (fine) return 0;
  violation(what);
  return otherwise;
}

int queueCopy(void* to, const void* from, size_t bytes, Stream* stream) {
  const Lock lock(state().mutex);
  if (const int bad = need(hasContext(), "a copy without a context", kNoContext); bad != 0) return bad;
  if (const int bad = need(cuda().streams.contains(stream), "a copy on an unknown stream"); bad != 0) return bad;
  if (stream->blocked) violation("a copy was queued while an NCCL call was in progress on its stream");
  const auto at = reinterpret_cast<uintptr_t>(from);
  const auto reading = cuda().reading.emplace(at, bytes);
  for (const auto& [begin, size] : cuda().locked)
    if (begin < at + bytes && at < begin + size) cuda().lockedBytes += std::min(begin + size, at + bytes) - std::max(begin, at);
  stream->work.push_back({[=] {
                            std::memcpy(to, from, bytes);
                            cuda().reading.erase(reading);
                          },
                          [] { return true; }});
  pump(*stream);
  return 0;
}

int memoryOf(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<int>(info.st_size >> 20) : -1;
}

}  // namespace

State& state() {
  static State* one = [] {
    auto* made = new State();
    const char* text = std::getenv("FAKE_GPU");
    std::istringstream in(text != nullptr ? text : "");
    for (std::string pair; std::getline(in, pair, ',');) {
      const size_t equals = pair.find('=');
      if (equals != std::string::npos) made->knobs[pair.substr(0, equals)] = std::atol(pair.c_str() + equals + 1);
    }
    return made;
  }();
  return *one;
}

long knob(const char* name, long otherwise) {
  const Lock lock(state().mutex);
  const auto at = state().knobs.find(name);
  return at == state().knobs.end() ? otherwise : at->second;
}

void blockWhile(const char* name) {
  while (knob(name, 0) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void violation(const std::string& what) {
  const Lock lock(state().mutex);
  state().violations += what + "\n";
}

bool hasContext() { return current != nullptr; }

void pump(Stream& stream) {
  while (!stream.work.empty()) {
    Work& first = stream.work.front();
    if (!first.begun) {
      first.begun = true;
      if (first.begin) first.begin();
    }
    if (!first.isFinished()) return;
    stream.work.pop_front();
  }
}

}  // namespace fake

using namespace fake;

EXPORTED void fakeGpuSet(const char* name, long value) {
  const Lock lock(state().mutex);
  state().knobs[name] = value;
}
// What was done wrong since the last call. The text belongs to the calling thread.
EXPORTED const char* fakeGpuViolations() {
  static thread_local std::string text;
  const Lock lock(state().mutex);
  text = std::move(state().violations);
  state().violations.clear();
  return text.c_str();
}
// What was made and not given back.
EXPORTED const char* fakeGpuLeaks() {
  static thread_local std::string text;
  const Lock lock(state().mutex);
  text = ncclLeaks();
  const auto count = [](const char* what, size_t n) {
    if (n > 0) text += std::to_string(n) + " " + what + "\n";
  };
  count("contexts", static_cast<size_t>(cuda().contexts));
  count("streams", cuda().streams.size());
  count("events", cuda().events.size());
  count("memory handles", cuda().memory.size());
  count("reserved ranges", cuda().reserved.size());
  count("mapped ranges", cuda().mapped.size());
  count("locked ranges", cuda().locked.size());
  return text.c_str();
}

// How many bytes were copied from locked memory.
EXPORTED long fakeGpuLockedBytes() {
  const Lock lock(state().mutex);
  return static_cast<long>(cuda().lockedBytes);
}
// How much is in a stream that is not done yet.
EXPORTED long fakeGpuQueued(Stream* stream) {
  const Lock lock(state().mutex);
  return static_cast<long>(stream->work.size());
}
// Keeps a stream busy as long as the knob `streamHeld` is set.
EXPORTED void fakeGpuHold(Stream* stream) {
  const Lock lock(state().mutex);
  stream->work.push_back({{}, [] { return knob("streamHeld", 0) == 0; }});
}

EXPORTED int cuInit(unsigned flags) {
  blockWhile("cuInitBlocks");
  const Lock lock(state().mutex);
  if (flags != 0) violation("cuInit with flags");
  cuda().initialised = true;
  return static_cast<int>(knob("cuInit", 0));
}
EXPORTED int cuDriverGetVersion(int* version) { return *version = static_cast<int>(knob("driver", 13000)), 0; }
EXPORTED int cuGetErrorString(int result, const char** text) {
  *text = result == 100 ? "no CUDA-capable device is detected" : result == kOutOfMemory ? "out of memory" : "an error of the fake";
  return 0;
}
EXPORTED int cuDeviceGetCount(int* count) {
  if (!cuda().initialised) violation("cuDeviceGetCount before cuInit");
  return *count = static_cast<int>(knob("devices", 1)), 0;
}
EXPORTED int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= knob("devices", 1)) return 101;
  return *device = ordinal, 0;
}
EXPORTED int cuDeviceGetName(char* name, int length, int device) {
  return std::snprintf(name, static_cast<size_t>(length), "Fake GPU %d", device), 0;
}
EXPORTED int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = size_t{8} << 30, 0; }
EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 75: return *value = 9, 0;
    case 76: return *value = 0, 0;
    case 102: return *value = 1, 0;
    case 103: return *value = static_cast<int>(knob("fileDescriptors", 1)), 0;
    default: return kInvalidValue;
  }
}
EXPORTED int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  std::memset(uuid, 0, 16);
  uuid[0] = 0xfa;
  uuid[14] = static_cast<unsigned char>(knob("gpu", 0));
  uuid[15] = static_cast<unsigned char>(device);
  return static_cast<int>(knob("uuid", 0));
}
EXPORTED int cuDevicePrimaryCtxRetain(void** context, int) {
  const Lock lock(state().mutex);
  cuda().contexts++;
  return *context = &contextOfDevice, 0;
}
EXPORTED int cuDevicePrimaryCtxRelease_v2(int) {
  const Lock lock(state().mutex);
  return need(cuda().contexts-- > 0, "a context was released too often");
}
EXPORTED int cuCtxSetCurrent(void* context) { return current = context, 0; }
EXPORTED int cuMemGetInfo_v2(size_t* free, size_t* total) { return *free = size_t{6} << 30, *total = size_t{8} << 30, 0; }

EXPORTED int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, Stream* stream) {
  return queueCopy(reinterpret_cast<void*>(to), from, bytes, stream);
}
EXPORTED int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, Stream* stream) {
  return queueCopy(to, reinterpret_cast<const void*>(from), bytes, stream);
}
EXPORTED int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, Stream* stream) {
  return queueCopy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, stream);
}

EXPORTED int cuMemHostRegister_v2(void* host, size_t bytes, unsigned flags) {
  const Lock lock(state().mutex);
  if (const int bad = need(hasContext(), "memory was locked without a context", kNoContext); bad != 0) return bad;
  const auto at = reinterpret_cast<uintptr_t>(host);
  if (const int bad = need(at % 4096 == 0 && bytes % 4096 == 0 && bytes > 0 && flags == 9, "other than whole pages were locked"); bad != 0) return bad;
  if (knob("lockRefused", 0) != 0) return kNotSupported;
  for (const auto& [begin, size] : cuda().locked)
    if (begin < at + bytes && at < begin + size) return violation("memory was locked twice"), kAlreadyRegistered;
  return cuda().locked[at] = bytes, 0;
}
EXPORTED int cuMemHostUnregister(void* host) {
  const Lock lock(state().mutex);
  const auto found = cuda().locked.find(reinterpret_cast<uintptr_t>(host));
  if (const int bad = need(found != cuda().locked.end(), "memory was unlocked that was not locked", kNotRegistered); bad != 0) return bad;
  for (const auto& [at, size] : cuda().reading)
    if (at < found->first + found->second && found->first < at + size) violation("memory was unlocked while a copy that reads it was queued");
  return cuda().locked.erase(found), 0;
}

EXPORTED int cuStreamCreate(Stream** stream, unsigned flags) {
  const Lock lock(state().mutex);
  if (const int bad = need(hasContext() && flags == 1, "a stream without a context, or one that blocks the others"); bad != 0) return bad;
  return *stream = *cuda().streams.insert(new Stream()).first, 0;
}
EXPORTED int cuStreamDestroy_v2(Stream* stream) {
  const Lock lock(state().mutex);
  if (const int bad = need(cuda().streams.erase(stream) == 1, "an unknown stream was destroyed"); bad != 0) return bad;
  if (!stream->work.empty()) violation("a stream was destroyed with work on it");
  return delete stream, 0;
}
EXPORTED int cuEventCreate(Event** event, unsigned flags) {
  const Lock lock(state().mutex);
  if (const int bad = need(hasContext() && flags == 2, "an event without a context, or with timing"); bad != 0) return bad;
  return *event = *cuda().events.insert(new Event()).first, 0;
}
EXPORTED int cuEventRecord(Event* event, Stream* stream) {
  const Lock lock(state().mutex);
  if (stream->blocked) violation("an event was recorded while an NCCL call was in progress on its stream");
  *event = {true, false, stream};
  // One that was destroyed meanwhile is reached unheard.
  const auto reach = [event] {
    if (cuda().events.contains(event)) event->reached = true;
  };
  stream->work.push_back({reach, [] { return true; }});
  return pump(*stream), 0;
}
EXPORTED int cuEventQuery(Event* event) {
  const Lock lock(state().mutex);
  if (const int bad = need(cuda().events.contains(event), "an unknown event"); bad != 0) return bad;
  if (event->stream != nullptr && cuda().streams.contains(event->stream)) pump(*event->stream);
  return event->reached ? 0 : kNotReady;
}
EXPORTED int cuEventDestroy_v2(Event* event) {
  const Lock lock(state().mutex);
  if (const int bad = need(cuda().events.erase(event) == 1, "an unknown event was destroyed"); bad != 0) return bad;
  if (!event->reached) violation("an event was destroyed before it was reached");
  return delete event, 0;
}

namespace {

// CUmemAllocationProp as its bytes: pinned, file descriptor, on device 0…7, nothing else.
bool isProperties(const void* properties) {
  int32_t words[8];
  std::memcpy(words, properties, sizeof words);
  return words[0] == 1 && words[1] == 1 && words[2] == 1 && words[3] >= 0 && words[3] < 8 && words[4] == 0 && words[5] == 0 &&
         words[6] == 0 && words[7] == 0;
}

}  // namespace

EXPORTED int cuMemGetAllocationGranularity(size_t* bytes, const void* properties, int option) {
  if (!isProperties(properties) || option != 0) violation("the granularity of other memory than device memory");
  return *bytes = kGranularity, 0;
}
EXPORTED int cuMemCreate(uint64_t* handle, size_t bytes, const void* properties, unsigned long long flags) {
  const Lock lock(state().mutex);
  if (const int bad = need(isProperties(properties) && flags == 0 && bytes % kGranularity == 0, "cuMemCreate with bad properties"); bad != 0)
    return bad;
  if (bytes > size_t{knob("memoryMiB", 6000) > 0 ? static_cast<size_t>(knob("memoryMiB", 6000)) : 0} << 20) return kOutOfMemory;
  const int fd = ::memfd_create("fake-gpu", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  *handle = cuda().nextHandle++;
  return cuda().memory[*handle] = {fd, bytes}, 0;
}
EXPORTED int cuMemRelease(uint64_t handle) {
  const Lock lock(state().mutex);
  const auto at = cuda().memory.find(handle);
  if (const int bad = need(at != cuda().memory.end(), "an unknown memory handle was released"); bad != 0) return bad;
  ::close(at->second.fd);
  return cuda().memory.erase(at), 0;
}
EXPORTED int cuMemExportToShareableHandle(int* fd, uint64_t handle, int type, unsigned long long flags) {
  const Lock lock(state().mutex);
  if (const int bad = need(type == 1 && flags == 0 && cuda().memory.contains(handle), "a bad export"); bad != 0) return bad;
  if (cuda().memory[handle].imported) return kInvalidValue;  // as driver 580 on an H200
  return *fd = ::fcntl(cuda().memory[handle].fd, F_DUPFD_CLOEXEC, 0), *fd >= 0 ? 0 : kOutOfMemory;
}
EXPORTED int cuMemImportFromShareableHandle(uint64_t* handle, void* osHandle, int type) {
  const Lock lock(state().mutex);
  const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(osHandle));
  const int size = memoryOf(fd);
  if (type != 1 || size <= 0) return kInvalidValue;
  *handle = cuda().nextHandle++;
  return cuda().memory[*handle] = {::fcntl(fd, F_DUPFD_CLOEXEC, 0), static_cast<size_t>(size) << 20, true}, 0;
}
EXPORTED int cuMemAddressReserve(uint64_t* at, size_t bytes, size_t, uint64_t hint, unsigned long long flags) {
  const Lock lock(state().mutex);
  if (const int bad = need(bytes % kGranularity == 0 && hint == 0 && flags == 0, "a bad reservation"); bad != 0) return bad;
  void* place = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return kOutOfMemory;
  *at = reinterpret_cast<uint64_t>(place);
  return cuda().reserved[*at] = bytes, 0;
}
EXPORTED int cuMemAddressFree(uint64_t at, size_t bytes) {
  const Lock lock(state().mutex);
  const auto found = cuda().reserved.find(at);
  if (const int bad = need(found != cuda().reserved.end() && found->second == bytes && !cuda().mapped.contains(at), "a bad address free"); bad != 0)
    return bad;
  ::munmap(reinterpret_cast<void*>(at), bytes);
  return cuda().reserved.erase(found), 0;
}
EXPORTED int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
  const Lock lock(state().mutex);
  const auto memory = cuda().memory.find(handle);
  const bool fine = memory != cuda().memory.end() && cuda().reserved.contains(at) && offset == 0 && flags == 0 && bytes % kGranularity == 0 && bytes <= memory->second.bytes;
  if (!fine) return kInvalidValue;  // more than there is: what another process says of its memory may be wrong
  ::mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->second.fd, 0);
  return cuda().mapped[at] = bytes, 0;
}
EXPORTED int cuMemUnmap(uint64_t at, size_t bytes) {
  const Lock lock(state().mutex);
  const auto found = cuda().mapped.find(at);
  if (const int bad = need(found != cuda().mapped.end() && found->second == bytes, "a bad unmap"); bad != 0) return bad;
  ::mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return cuda().mapped.erase(found), 0;
}
EXPORTED int cuMemSetAccess(uint64_t at, size_t bytes, const void* description, size_t count) {
  const Lock lock(state().mutex);
  int32_t words[3];
  std::memcpy(words, description, sizeof words);
  const bool fine = count == 1 && words[0] == 1 && cuda().mapped.contains(at) && (words[2] == 1 || words[2] == 3);
  if (const int bad = need(fine, "a bad access description"); bad != 0) return bad;
  if (words[2] == 1 && knob("readOnlyRefused", 0) != 0) return kInvalidValue;
  const int protection = words[2] == 1 ? PROT_READ : PROT_READ | PROT_WRITE;
  return ::mprotect(reinterpret_cast<void*>(at), bytes, protection) == 0 ? 0 : kInvalidValue;
}
