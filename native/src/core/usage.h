// What the data plane of this process has in use now.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace muster {

struct Usage {
  std::atomic<uint64_t> connections{0};  // open sockets to other processes
  std::atomic<uint64_t> mappedBytes{0};  // of versions, meshes, groups and what arrives; what nobody has touched yet takes no memory
};

inline Usage& usage() {
  static Usage all;
  return all;
}

// Some open connections, counted as long as this object holds them.
class ConnectionCount {
 public:
  ConnectionCount() = default;
  explicit ConnectionCount(uint64_t count) : count_(count) { usage().connections += count_; }
  ConnectionCount(ConnectionCount&& other) noexcept : count_(std::exchange(other.count_, 0)) {}
  ConnectionCount& operator=(ConnectionCount&& other) noexcept {
    usage().connections -= count_;
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  ~ConnectionCount() { usage().connections -= count_; }

 private:
  uint64_t count_ = 0;
};

}  // namespace muster
