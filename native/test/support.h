// A short-lived directory for sockets, and options that every test shares.
#pragma once

#include <bit>
#include <cstdlib>
#include <filesystem>

#include "core/bytes.h"
#include "core/patience.h"

namespace muster::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char path[] = "/tmp/muster-test-XXXXXX";
    if (::mkdtemp(path) != nullptr) path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // a folder left behind fails no test
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Bytes keyOf(std::string_view text) { return {text.begin(), text.end()}; }

inline Patience patienceOf(const Abort& abort, int ms = 10'000) { return {Deadline::in(Milliseconds(ms)), &abort}; }

// The sum of some shards along their tree, naively: the left half has the largest power of two that leaves some for the right one.
template <class ValueOf>
float alongTree(uint32_t first, uint32_t shards, const ValueOf& valueOf) {
  if (shards == 1) return valueOf(first);
  const uint32_t left = std::bit_floor(shards - 1);
  return alongTree(first, left, valueOf) + alongTree(first + left, shards - left, valueOf);
}

}  // namespace muster::test
