// Sealed memfd segments: memory that several processes map, that nobody can shrink under a reader's feet, and that lives
// as long as somebody maps it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/status.h"
#include "core/unique_fd.h"

namespace muster {

class Mapping {
 public:
  Mapping() = default;
  Mapping(uint8_t* data, size_t size);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { unmap(); }

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  // Gives back what lies before and behind a part of whole pages. This object is empty afterwards.
  Mapping keepOnly(uint8_t* start, size_t size);

 private:
  void unmap();

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

struct Segment {
  UniqueFd fd;
  Mapping mapping;
};

enum class Access { ReadOnly, ReadWrite };

// Creates a segment of at least `bytes` zero bytes, sealed against resizing. With Access::ReadOnly for the others, only
// the mapping returned here can ever write.
Result<Segment> createSegment(const std::string& name, size_t bytes, Access others);

// Maps a segment that came from another process, after checking its seals and that it holds at least `bytes`.
Result<Mapping> mapSegment(int fd, size_t bytes, Access access);

// Private zero memory with huge pages where the kernel has them: staging for bulk transfers.
Result<Mapping> mapPrivate(size_t bytes);

// Ok when this machine can share memory between processes the way the data plane needs.
Status probeSharedMemory();

}  // namespace muster
