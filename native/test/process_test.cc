// What a process of the data plane keeps to itself, and what it does when it is short of something.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "check.h"
#include "core/block_digest.h"
#include "core/cores.h"
#include "core/mesh.h"
#include "core/pull.h"
#include "core/unmapping.h"
#include "core/usage.h"
#include "gpu/stray_thread.h"
#include "support.h"

using namespace muster;
using namespace muster::test;

namespace {

std::set<int> openDescriptors() {
  std::set<int> open;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) open.insert(std::stoi(each.path().filename()));
  return open;
}

// What the kernel was told about the memory at an address, as two letters for each thing.
std::string adviceAbout(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  bool within = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
      within = from <= reinterpret_cast<uintptr_t>(at) && reinterpret_cast<uintptr_t>(at) < to;
    if (within && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

struct Program {
  bool readOnlyRelocations = false, executableStack = true;
};

}  // namespace

TEST("no descriptor of stores, pulls and meshes is left to programs that this process starts") {
  const TemporaryFolder folder;
  const Abort never;
  const std::set<int> before = openDescriptors();
  const auto store = VersionStore::open({keyOf("key"), "job", "a", folder.path(), std::string("127.0.0.1"), 1 << 20, 2}).value();
  const Bytes weights(300'000, 3);
  REQUIRE_OK(store->publish({1, 1}, {{"weights", weights}}, never));
  std::vector<Pulled> readers;
  for (const std::string& address : store->addresses()) {
    const PullOptions options{keyOf("key"), "job", "reader", {parseAddress(address).value()}, {1, 1}, {{"weights", weights.size(), digestOf(weights)}}, nullptr};
    auto pulled = pull(options, patienceOf(never));
    REQUIRE_OK(pulled);
    readers.push_back(std::move(pulled.value()));
  }
  const auto mesh = Mesh::open({keyOf("key"), "job", 1, 0, {"a"}, folder.path(), 1, 100}, patienceOf(never));
  REQUIRE_OK(mesh);
  size_t ours = 0;
  for (const int fd : openDescriptors()) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (before.contains(fd) || flags < 0) continue;  // the last is that of the look itself
    CHECK((flags & FD_CLOEXEC) != 0);
    ours++;
  }
  CHECK(ours >= 5);
}

TEST("weights and gradients are in no core dump") {
  const Result<Segment> segment = createSegment("test", size_t{4} << 20, Access::ReadOnly);
  REQUIRE_OK(segment);
  const Result<Mapping> reader = mapSegment(segment.value().fd.get(), size_t{4} << 20, Access::ReadOnly);
  REQUIRE_OK(reader);
  const Result<Mapping> small = mapPrivate(100);
  REQUIRE_OK(small);
  for (const void* at : {static_cast<const void*>(segment.value().mapping.data()), static_cast<const void*>(reader.value().data()),
                         static_cast<const void*>(small.value().data())})
    CHECK(adviceAbout(at).find(" dd ") != std::string::npos);
}

TEST("who lets go of large memory does not take the time that it takes to unmap it, and it is gone before as much is mapped again") {
  constexpr size_t kBytes = size_t{512} << 20;
  const auto mapped = usage().mappedBytes.load();
  const auto secondsOfThisThread = [] {
    timespec time{};
    CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  for (int i = 0; i < 2; i++) {
    std::optional<Result<Segment>> segment = createSegment("test", kBytes, Access::ReadOnly);
    REQUIRE_OK(*segment);
    CHECK(usage().mappedBytes == mapped + kBytes);  // that of the time before is gone
    ::madvise(segment->value().mapping.data(), kBytes, MADV_POPULATE_WRITE);
    const Mapping taken = std::move(segment->value().mapping);
    std::optional<Mapping> reader = std::move(mapSegment(segment->value().fd.get(), kBytes, Access::ReadOnly).value());
    ::madvise(reader->data(), kBytes, MADV_POPULATE_READ);
    const double before = secondsOfThisThread();
    reader.reset();
    const double took = secondsOfThisThread() - before;
    std::printf("       unmapping took %.1f ms of the thread that let go\n", took * 1e3);
    CHECK(took < 0.005);
  }
  awaitUnmapped();
  CHECK(usage().mappedBytes == mapped);
}

TEST("tables of functions are read-only once the program runs, and no stack can be run") {
  Program program;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        auto& found = *static_cast<Program*>(out);
        for (int i = 0; i < info->dlpi_phnum; i++) {
          if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) found.readOnlyRelocations = true;
          if (info->dlpi_phdr[i].p_type == PT_GNU_STACK) found.executableStack = (info->dlpi_phdr[i].p_flags & PF_X) != 0;
        }
        return 1;  // the first is the program itself
      },
      &program);
  CHECK(program.readOnlyRelocations && !program.executableStack);
  bool boundAtOnce = false;
  for (const ElfW(Dyn)* each = _DYNAMIC; each->d_tag != DT_NULL; each++)
    if (each->d_tag == DT_FLAGS_1 && (each->d_un.d_val & DF_1_NOW) != 0) boundAtOnce = true;
  CHECK(boundAtOnce);
}

TEST("a Unix socket at which too many wait is busy, not gone") {
  const TemporaryFolder folder;
  const Abort never;
  const std::string path = folder.path() + "/busy.sock";
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  CHECK(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 && ::listen(listener.get(), 0) == 0);
  const Address address{Address::Kind::Unix, path};
  const auto first = connectTo(address, patienceOf(never));
  REQUIRE_OK(first);
  CHECK(connectTo(address, patienceOf(never, 30)).status().code == Code::Timeout);
  CHECK(acceptFrom(listener.get(), Address::Kind::Unix).ok());
  CHECK(connectTo(address, patienceOf(never)).ok());
  CHECK(connectTo({Address::Kind::Unix, folder.path() + "/nobody.sock"}, patienceOf(never)).status().code == Code::Unreachable);
}

TEST("who accepts callers and has no descriptors left for them does not spin") {
  const Abort never;
  const TcpListener listener = std::move(listenTcp("127.0.0.1").value());
  const auto caller = connectTo(listener.address, patienceOf(never));
  REQUIRE_OK(caller);
  CHECK(awaitReady(listener.fd.get(), POLLIN, patienceOf(never)).ok());
  rlimit before{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const auto next = static_cast<rlim_t>(UniqueFd(::fcntl(listener.fd.get(), F_DUPFD_CLOEXEC, 0)).get());
  const rlimit none{next, before.rlim_max};
  CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto began = Clock::now();
  const Status refused = acceptPatiently(listener.fd.get(), Address::Kind::Tcp, patienceOf(never)).status();
  const auto took = Clock::now() - began;
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(refused.code == Code::Io && took >= Milliseconds(10));
  CHECK(acceptPatiently(listener.fd.get(), Address::Kind::Tcp, patienceOf(never)).ok());
}

TEST("threads are as many as the quotas of the control groups pay for") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& path, const std::string& text) {
    const std::filesystem::path at = folder.path() + "/" + path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
  };
  CHECK(!quotaOf("0::/pod/one\n", folder.path()));
  write("pod/one/cpu.max", "max 100000\n");
  CHECK(!quotaOf("0::/pod/one\n", folder.path()));
  write("pod/cpu.max", "250000 100000\n");  // of what it is a part of
  CHECK(quotaOf("0::/pod/one\n", folder.path()) == 2.5);
  write("pod/one/cpu.max", "150000 100000\n");
  CHECK(quotaOf("0::/pod/one\n", folder.path()) == 1.5);
  write("v1/cpu,cpuacct/pod/cpu.cfs_quota_us", "-1\n");
  write("v1/cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n");
  CHECK(!quotaOf("3:cpuset:/\n2:cpu,cpuacct:/pod\n", folder.path() + "/v1"));
  write("v1/cpu,cpuacct/pod/cpu.cfs_quota_us", "50000\n");
  CHECK(quotaOf("3:cpuset:/\n2:cpu,cpuacct:/pod\n", folder.path() + "/v1") == 0.5);
  CHECK(quotaOf("2:cpu,cpuacct:/kubepods/deep\n", folder.path()) == std::nullopt);
  write("cpu/cpu.cfs_quota_us", "300000\n");  // a container that sees its own group at the root
  write("cpu/cpu.cfs_period_us", "100000\n");
  CHECK(quotaOf("1:cpu:/host/path/of/it\n", folder.path()) == 3.0);
  CHECK(!quotaOf("nonsense\n\n:", folder.path()));
  CHECK(usableCores() >= 1);
}

TEST("an exception in foreign code is a failed call, and not the end of the process") {
  const Abort never;
  const auto thrown = awaitStray<int>([]() -> Result<int> { throw std::runtime_error("no memory"); }, patienceOf(never));
  CHECK(thrown.status().code == Code::Io && thrown.status().message == "no memory");
}
