#include "core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/limits.h"
#include "core/unmapping.h"
#include "core/usage.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace muster {

namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;


size_t pageBytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// Whole pages; whole huge pages from one on, so that the last one can be huge too.
size_t toPages(size_t bytes) {
  const size_t unit = bytes >= kHugePage ? kHugePage : pageBytes();
  return (bytes + unit - 1) / unit * unit;
}

// Weights and gradients do not belong into core dumps: they are secrets of their owner, and make a dump as large as themselves.
void keepOutOfCores(void* at, size_t bytes) { ::madvise(at, bytes, MADV_DONTDUMP); }

Result<Mapping> map(size_t bytes, int protection, int flags, int fd) {
  const auto refused = [&] { return ioError("cannot map " + std::to_string(bytes) + " bytes", errno); };
  if (bytes < kHugePage) {
    void* at = ::mmap(nullptr, bytes, protection, flags, fd, 0);
    if (at == MAP_FAILED) return refused();
    keepOutOfCores(at, bytes);
    return Mapping(static_cast<uint8_t*>(at), bytes);
  }
  awaitUnmapped();
  // Huge pages only fit at multiples of their size: reserve more address space than needed, and use what fits.
  void* reserved = ::mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return refused();
  Mapping whole(static_cast<uint8_t*>(reserved), bytes + kHugePage);
  const size_t skipped = (kHugePage - reinterpret_cast<uintptr_t>(reserved) % kHugePage) % kHugePage;
  uint8_t* const start = whole.data() + skipped;
  if (::mmap(start, bytes, protection, flags | MAP_FIXED, fd, 0) == MAP_FAILED) return refused();
  keepOutOfCores(start, bytes);
  return whole.keepOnly(start, bytes);
}

}  // namespace

Mapping::Mapping(uint8_t* data, size_t size) : data_(data), size_(size) { usage().mappedBytes += size; }

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Mapping Mapping::keepOnly(uint8_t* start, size_t size) {
  const size_t before = static_cast<size_t>(start - data_), after = size_ - before - size;
  if (before > 0) ::munmap(data_, before);
  if (after > 0) ::munmap(start + size, after);
  data_ = nullptr;
  usage().mappedBytes -= size_;
  return {start, size};
}

void Mapping::unmap() {
  if (data_ != nullptr) unmapLater(data_, size_);
  data_ = nullptr;
}

Result<Segment> createSegment(const std::string& name, size_t bytes, Access others) {
  const size_t size = toPages(bytes);
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return ioError("cannot create shared memory", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return ioError("cannot size shared memory to " + std::to_string(size) + " bytes", errno);
  Result<Mapping> mapping = map(size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get());
  if (!mapping.ok()) return mapping.status();
  // After the writer has its mapping, so that the write seal does not hit itself.
  const int seals = kSizeSeals | (others == Access::ReadOnly ? F_SEAL_FUTURE_WRITE : 0);
  if (::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return ioError("cannot seal shared memory", errno);
  return Segment{std::move(fd), std::move(mapping.value())};
}

Result<Mapping> mapSegment(int fd, size_t bytes, Access access) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals)
    return Status{Code::Corrupt, "the shared memory offered is not sealed against resizing", {}};
  // What is only read is believed to be what its owner digested: nobody else may be able to change it.
  if (access == Access::ReadOnly && (seals & F_SEAL_FUTURE_WRITE) == 0)
    return Status{Code::Corrupt, "the shared memory offered is not sealed against writing", {}};
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ioError("fstat", errno);
  if (static_cast<uint64_t>(info.st_size) < bytes)
    return Status{Code::Corrupt,
                  "the shared memory offered has " + std::to_string(info.st_size) + " bytes, not " + std::to_string(bytes),
                  {}};
  const int protection = access == Access::ReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  const size_t rounded = std::min(toPages(bytes), static_cast<size_t>(info.st_size));
  return map(rounded, protection, MAP_SHARED, fd);
}

Result<Mapping> mapPrivate(size_t bytes) {
  Result<Mapping> mapping = map(toPages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (mapping.ok()) ::madvise(mapping.value().data(), mapping.value().size(), MADV_HUGEPAGE);
  return mapping;
}

Status probeSharedMemory() {
  Result<Segment> segment = createSegment("muster-probe", 1, Access::ReadOnly);
  if (!segment.ok()) return {Code::Unsupported, segment.status().message, {}};
  const Result<Mapping> reader = mapSegment(segment.value().fd.get(), 1, Access::ReadOnly);
  if (!reader.ok()) return {Code::Unsupported, reader.status().message, {}};
  *segment.value().mapping.data() = 42;
  if (*static_cast<const volatile uint8_t*>(reader.value().data()) != 42)
    return {Code::Unsupported, "two mappings of one memfd do not see the same bytes", {}};
  return {};
}

}  // namespace muster
