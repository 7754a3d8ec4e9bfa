// On which memory node large memory lies, where a host has more than one. What every process of the host reads, a version, is spread over all
// nodes, so that no node's bus carries everybody. What one rank works on, its slice of a sum, comes to the node on which that rank first touches it,
// which is what the kernel does by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster {

struct NumaPlaces {
  std::string nodes = "/sys/devices/system/node/has_memory";
  std::string status = "/proc/self/status";
};

// The nodes with memory that this process may use; none where that cannot be told.
std::vector<unsigned> memoryNodes(const NumaPlaces& places = {});

// "0-3,8" → 0, 1, 2, 3, 8; nothing when it cannot be read.
std::vector<unsigned> parseNodeList(const std::string& text);

// As mbind(2) with MPOL_INTERLEAVE: the bits of the nodes, one behind the other.
using Interleave = std::function<void(uint8_t* data, size_t bytes, const std::vector<unsigned long>& nodes)>;

// Spreads memory that nobody has touched yet over `nodes`; does nothing when there are fewer than two. Best effort.
void spreadOverNodes(uint8_t* data, size_t bytes, const std::vector<unsigned>& nodes, const Interleave& interleave);

// The same by the kernel, over all nodes that this process may use.
void spreadOverNodes(uint8_t* data, size_t bytes);

}  // namespace muster
