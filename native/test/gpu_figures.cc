// What only a real GPU can show: memory of one process mapped by another, before and after the maker is killed, and one-rank NCCL
// through the whole path. Prints one line of JSON; or why it was skipped, and then succeeds. `native/test/run.sh gpu`.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/connection.h"
#include "core/shared_memory.h"
#include "gpu/communicator.h"
#include "gpu/device_shelf.h"
#include "gpu/direct_copy.h"
#include "gpu/gpu_report.h"

using namespace muster;

namespace {

const Abort never;
Patience patience() { return {Deadline::in(Milliseconds(60'000)), &never}; }

GpuPaths paths() {
  const auto setting = [](const char* name) { const char* text = std::getenv(name); return std::string(text != nullptr ? text : ""); };
  const std::string nccl = setting("MUSTER_NCCL_PATH");
  if (!nccl.empty()) return {setting("MUSTER_CUDA_PATH"), {nccl}};
  const std::string wheel = setting("MUSTER_NCCL_WHEEL");  // as run.sh found it
  return {setting("MUSTER_CUDA_PATH"), wheel.empty() ? std::vector<std::string>{"libnccl.so.2"} : std::vector<std::string>{"libnccl.so.2", wheel}};
}

template <class T>
T orDie(Result<T> result, const char* what) {
  if (result.ok()) return std::move(result.value());
  std::printf("FAILED %s: %s\n", what, result.status().message.c_str());
  std::exit(1);
}
void orDie(const Status& status, const char* what) {
  if (status.ok()) return;
  std::printf("FAILED %s: %s\n", what, status.message.c_str());
  std::exit(1);
}

std::shared_ptr<GpuDevice> openFirst() {
  std::vector<LibraryAttempt> failed;
  return orDie(GpuDevice::open(orDie(CudaDriver::load(paths().cuda, failed), "the driver"), 0), "the GPU");
}

Bytes pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<uint8_t>((i * 2654435761u) >> 9);
  return bytes;
}

// The best of five, in 10^9 bytes copied per second.
template <class Body>
double gigabytesPerSecond(size_t bytes, Body body) {
  double best = 0;
  for (int round = 0; round < 5; round++) {
    const auto begun = Clock::now();
    body();
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    best = std::max(best, static_cast<double>(bytes) / seconds / 1e9);
  }
  return best;
}

const Bytes key(32, 7);
const ShelvedId version{{1, 1}, 77};

// The other process: offers memory with the pattern, says where, and waits for its end.
[[noreturn]] void makeAndWait(int socket, const std::string& folder, size_t bytes) {
  Connection connection((UniqueFd(socket)));
  const auto gpu = openFirst();
  const auto memory = orDie(DeviceMemory::create(gpu, bytes), "memory of the maker");
  orDie(gpu->copyIn(memory->at(), pattern(bytes), patience()), "the maker's bytes");
  const auto shelf = orDie(DeviceShelf::open({key, "figures", "maker", folder}), "the shelf");
  orDie(shelf->put(version, memory, bytes), "the offer");
  const Bytes address = ByteWriter().text(shelf->address()).bytes();
  orDie(connection.send({FrameType::Grant, address}, patience()), "the address");
  for (;;) ::pause();
}

void checkBytes(GpuDevice& gpu, const DeviceMemory& memory, size_t bytes, const char* what) {
  Bytes back(bytes);
  orDie(gpu.copyOut(back, memory.at(), patience()), what);
  if (back != pattern(bytes)) orDie(Status{Code::Corrupt, "other bytes than were written", {}}, what);
}

struct Sharing {
  double local, shared, afterDeath;
  bool readOnly;
};

Sharing measureSharing(const std::shared_ptr<GpuDevice>& gpu, int socket, pid_t maker, size_t bytes) {
  Connection connection((UniqueFd(socket)));
  const Bytes grant = orDie(connection.receive(FrameType::Grant, patience()), "the maker");
  const TakeOptions options{key, "figures", "reader", ByteReader(grant).text(), version};
  const auto theirs = orDie(takeVersion(gpu, options, patience()), "mapping").memory;
  const auto own = orDie(DeviceMemory::create(gpu, bytes), "memory"), other = orDie(DeviceMemory::create(gpu, bytes), "memory");
  const auto copy = [&](const DeviceMemory& from) {
    return gigabytesPerSecond(bytes, [&] { orDie(gpu->copy(own->at(), from.at(), bytes, patience()), "a copy"); });
  };
  Sharing out{copy(*other), copy(*theirs), 0, theirs->isReadOnly()};
  checkBytes(*gpu, *own, bytes, "the maker's bytes");
  ::kill(maker, SIGKILL);
  ::waitpid(maker, nullptr, 0);
  orDie(gpu->copy(own->at(), other->at(), bytes, patience()), "a copy");
  out.afterDeath = copy(*theirs);
  checkBytes(*gpu, *own, bytes, "the bytes of the dead maker");
  return out;
}

// From the read-only memory of a version to the device: from its pages, through a buffer as JavaScript's bytes go, and on a stream of ours.
void measureFromVersion(const std::shared_ptr<GpuDevice>& gpu, size_t bytes) {
  auto segment = orDie(createSegment("figures", bytes, Access::ReadOnly), "shared memory");
  const Bytes content = pattern(bytes);
  std::copy(content.begin(), content.end(), segment.mapping.data());
  const Mapping mapped = orDie(mapSegment(segment.fd.get(), bytes, Access::ReadOnly), "its mapping");
  const ByteView section{mapped.data(), bytes};
  const auto memory = orDie(DeviceMemory::create(gpu, bytes), "memory");
  orDie(gpu->bind(), "the context");
  const bool locked = LockedPages(*gpu, section).areLocked();
  const double staged = gigabytesPerSecond(bytes, [&] {
    const Bytes buffer(section.begin(), section.end());
    orDie(gpu->copyIn(memory->at(), buffer, patience()), "a staged copy");
  });
  const auto direct = [&](cuda::Stream stream, const char* what) {
    const double best = gigabytesPerSecond(bytes, [&] { orDie(copyDirect(*gpu, memory->at(), section, stream, never), what); });
    checkBytes(*gpu, *memory, bytes, what);
    return best;
  };
  const double own = direct(nullptr, "a direct copy");
  cuda::Stream stream = nullptr;
  orDie(gpu->driver().check(gpu->driver().call().streamCreate(&stream, cuda::kStreamNonBlocking), "cuStreamCreate"), "a stream");
  const double callers = direct(stream, "a direct copy on a stream of the caller");
  orDie(gpu->driver().check(gpu->driver().call().streamDestroy(stream), "cuStreamDestroy"), "a stream");
  std::printf(",\"pagesLocked\":%s,\"stagedGBps\":%.1f,\"directGBps\":%.1f,\"callersStreamGBps\":%.1f", locked ? "true" : "false", staged, own,
              callers);
}

void measureNccl(const std::shared_ptr<GpuDevice>& gpu, size_t bytes) {
  std::vector<LibraryAttempt> failed;
  const auto library = NcclLibrary::load(paths().nccl, failed);
  if (!library.ok()) return void(std::printf(",\"nccl\":null"));
  const auto form = [&] {
    const nccl::UniqueId id = orDie(Communicator::newId(*library.value()), "an id");
    return orDie(Communicator::open(library.value(), gpu, {id, 1, 0}, patience()), "a communicator");
  };
  const auto begun = Clock::now();
  auto communicator = form();
  const double formMs = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  const auto from = orDie(DeviceMemory::create(gpu, bytes), "memory"), to = orDie(DeviceMemory::create(gpu, bytes), "memory");
  orDie(gpu->copyIn(from->at(), pattern(bytes), patience()), "the input");
  const auto run = [&](Collective collective) {
    const CommunicatorCall call{collective, from->at(), to->at(), bytes, nccl::DataType::Uint8, nccl::Reduction::Sum, 0, {from, to}};
    return gigabytesPerSecond(bytes, [&] { orDie(communicator->run({call}, patience()), "a collective"); });
  };
  const double allReduce = run(Collective::AllReduce), broadcast = run(Collective::Broadcast);
  checkBytes(*gpu, *to, bytes, "the result of the collectives");
  communicator->abort("to see that the next one forms");
  communicator = form();
  orDie(communicator->close(patience()), "closing");
  std::printf(",\"nccl\":{\"version\":%d,\"formMs\":%.1f,\"allReduceGBps\":%.1f,\"broadcastGBps\":%.1f,\"abortAndForm\":true}",
              library.value()->version(), formMs, allReduce, broadcast);
}

// Several GPUs, a rank on each: a sum, then the same without the last rank, which leaves by a shrink of the others. NCCL takes one rank for
// each GPU, so that one GPU shows nothing of this.
void checkRanks(const std::shared_ptr<const CudaDriver>& driver, size_t bytes) {
  const auto devices = static_cast<uint32_t>(orDie(driver->devices(), "the devices").size());
  std::vector<LibraryAttempt> failed;
  const auto library = NcclLibrary::load(paths().nccl, failed);
  if (!library.ok() || devices < 2) return void(std::printf(",\"ranks\":null"));
  const nccl::UniqueId id = orDie(Communicator::newId(*library.value()), "an id");
  const auto sumOf = [bytes](Communicator& communicator, const std::shared_ptr<GpuDevice>& gpu) {
    const auto from = orDie(DeviceMemory::create(gpu, bytes), "memory"), to = orDie(DeviceMemory::create(gpu, bytes), "memory");
    const size_t count = bytes / sizeof(float);
    std::vector<float> ones(count, 1), sum(count);
    orDie(gpu->copyIn(from->at(), {reinterpret_cast<const uint8_t*>(ones.data()), bytes}, patience()), "the input");
    const CommunicatorCall call{Collective::AllReduce, from->at(), to->at(), count, nccl::DataType::Float32, nccl::Reduction::Sum, 0, {from, to}};
    orDie(communicator.run({call}, patience()), "a sum");
    orDie(gpu->copyOut({reinterpret_cast<uint8_t*>(sum.data()), bytes}, to->at(), patience()), "the sum");
    const bool right = sum == std::vector<float>(count, static_cast<float>(communicator.ranks()));
    if (!right) orDie(Status{Code::Corrupt, "another sum than that of the ranks", {}}, "a sum");
  };
  std::atomic<uint32_t> shrunk{0};
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < devices; rank++)
    ranks.emplace_back([&, rank] {
      const auto gpu = orDie(GpuDevice::open(driver, static_cast<int>(rank)), "a GPU");
      const auto communicator = orDie(Communicator::open(library.value(), gpu, {id, devices, rank}, patience()), "a communicator");
      sumOf(*communicator, gpu);
      if (rank == devices - 1) return communicator->abort("it leaves");
      auto next = communicator->shrink({devices - 1}, patience());
      if (next.status().code == Code::Unsupported) return;  // this NCCL cannot
      const auto smaller = orDie(std::move(next), "a shrink");
      sumOf(*smaller, gpu);
      orDie(smaller->close(patience()), "closing");
      shrunk++;
    });
  for (std::thread& each : ranks) each.join();
  std::printf(",\"ranks\":{\"gpus\":%u,\"sum\":true,\"afterShrink\":%u}", devices, shrunk.load());
}

}  // namespace

int main() {
  const size_t bytes = size_t{256} << 20;
  char folder[] = "/tmp/muster-gpu-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0) return 1;
  int go[2];
  if (::pipe(go) != 0) return 1;
  // Before the driver is initialised here: it does not survive a fork.
  const pid_t maker = ::fork();
  if (maker == 0) {
    char word;
    ::close(go[1]);
    if (::read(go[0], &word, 1) != 1) ::_exit(0);
    makeAndWait(sockets[1], folder, bytes);
  }
  ::close(go[0]);
  ::close(sockets[1]);
  const auto report = describeGpus(paths(), patience());
  const bool has = report.ok() && report.value().cuda.status.ok() && !report.value().cuda.devices.empty();
  if (!has) {
    const Status& why = report.ok() ? report.value().cuda.status : report.status();
    std::printf("skipped: no GPU here (%s)\n", why.ok() ? "the driver has no device" : why.message.c_str());
    ::close(go[1]);
    ::waitpid(maker, nullptr, 0);
    std::filesystem::remove_all(folder);
    return 0;
  }
  if (::write(go[1], "x", 1) != 1) return 1;
  std::vector<LibraryAttempt> failed;
  const auto driver = orDie(CudaDriver::load(paths().cuda, failed), "the driver");
  const auto gpu = orDie(GpuDevice::open(driver, 0), "the GPU");
  const Sharing sharing = measureSharing(gpu, sockets[0], maker, bytes);
  std::printf("{\"gpu\":\"%s\",\"driver\":%d,\"bytes\":%zu,\"copyGBps\":%.1f,\"sharedCopyGBps\":%.1f,\"afterDeathGBps\":%.1f,\"readOnly\":%s",
              gpu->properties().name.c_str(), gpu->driver().version(), bytes, sharing.local, sharing.shared, sharing.afterDeath,
              sharing.readOnly ? "true" : "false");
  measureFromVersion(gpu, bytes);
  measureNccl(gpu, bytes);
  checkRanks(driver, size_t{1} << 20);
  std::printf("}\n");
  std::filesystem::remove_all(folder);
  return 0;
}
