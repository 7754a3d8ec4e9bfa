// Pulling parts of one section of a version: for a rank that needs other cuts of the tensors than those that ranks publish.
// What is verified are the blocks in which the parts lie; from another host nothing but those blocks is sent.
#pragma once

#include "core/pull.h"

namespace muster {

// Rows of bytes in the section, and where they go in the target.
struct Slice {
  uint64_t from = 0;
  uint64_t fromStride = 0;
  uint64_t to = 0;
  uint64_t toStride = 0;
  uint64_t bytes = 0;  // of one row
  uint64_t count = 0;  // rows
};

struct SlicePullOptions {
  Bytes key;
  std::string job;
  std::string member;
  std::vector<Address> holders;  // in order of preference
  VersionId id;
  WantedSection section;
  std::vector<Slice> slices;
};

struct SlicesPulled {
  uint64_t bytes = 0;      // of the slices
  uint64_t wireBytes = 0;  // that crossed a network for them
  Via via = Via::Memory;
  std::string from{};
};

// Writes the slices into `into`, which stays as it is on any failure. Holders are tried in their order; what is verified is not
// asked for again. Code::InvalidArgument for a slice outside of the section or the target; else as pull().
Result<SlicesPulled> pullSlices(const SlicePullOptions& options, std::span<uint8_t> into, const Patience& patience);

}  // namespace muster
