#include "core/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <fstream>
#include <sstream>

namespace muster {

namespace {

constexpr unsigned kNodesMax = 1024;  // MAX_NUMNODES of Linux
constexpr int kInterleave = 3;        // MPOL_INTERLEAVE, linux/mempolicy.h
constexpr size_t kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

bool parseNumber(std::string_view text, unsigned& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size() && into < kNodesMax;
}

std::string allowedIn(const std::string& status) {
  constexpr std::string_view kKey = "Mems_allowed_list:";
  std::ifstream file(status);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kKey)) return line.substr(std::min(line.find_first_not_of(" \t", kKey.size()), line.size()));
  return "";
}

}  // namespace

std::vector<unsigned> parseNodeList(const std::string& text) {
  std::vector<unsigned> nodes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    unsigned first = 0, last = 0;
    if (!parseNumber(part.substr(0, dash), first)) return {};
    if (dash == std::string::npos) last = first;
    else if (!parseNumber(part.substr(dash + 1), last) || last < first) return {};
    for (unsigned node = first; node <= last; node++) nodes.push_back(node);
  }
  return nodes;
}

std::vector<unsigned> memoryNodes(const NumaPlaces& places) {
  std::string present;
  std::getline(std::ifstream(places.nodes), present);
  const std::vector<unsigned> allowed = parseNodeList(allowedIn(places.status));
  std::vector<unsigned> nodes = parseNodeList(present);
  std::erase_if(nodes, [&](unsigned node) { return std::ranges::find(allowed, node) == allowed.end(); });
  return nodes;
}

void spreadOverNodes(uint8_t* data, size_t bytes, const std::vector<unsigned>& nodes, const Interleave& interleave) {
  if (nodes.size() < 2) return;
  std::vector<unsigned long> mask(*std::ranges::max_element(nodes) / kBitsPerWord + 1, 0);
  for (const unsigned node : nodes) mask[node / kBitsPerWord] |= 1UL << node % kBitsPerWord;
  interleave(data, bytes, mask);
}

void spreadOverNodes(uint8_t* data, size_t bytes) {
  static const std::vector<unsigned> nodes = memoryNodes();
  spreadOverNodes(data, bytes, nodes, [](uint8_t* at, size_t size, const std::vector<unsigned long>& mask) {
    // The kernel counts one bit less than it is told.
    ::syscall(SYS_mbind, at, size, kInterleave, mask.data(), mask.size() * kBitsPerWord + 1, 0);
  });
}

}  // namespace muster
