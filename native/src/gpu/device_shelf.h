// Versions in device memory for the other processes of this host: the twin of the version store's shared memory.
//
// A version is memory of its own that is never written again. Who asks over a Unix socket, and proves the job's key, gets its file
// descriptor and maps the same memory. The driver keeps memory as long as anybody has it mapped: a version that is taken off the shelf, or
// whose maker dies, stays with its readers, and a frozen reader costs memory and delays nobody.
//
// Nobody digests device memory here. The digest that the maker names for the version is what readers compare with the one that they were told.
//
//   Hello {Purpose::Device, body: {lineage, version}}   Grant = {bytes, size of the memory, digest, from minor version 1 on UUID of the
//   GPU}, with the file descriptor beside it
#pragma once

#include <list>
#include <thread>

#include "core/handshake.h"
#include "core/socket.h"
#include "core/version.h"
#include "gpu/device_memory.h"

namespace muster {

struct ShelfOptions {
  Bytes key;
  std::string job;
  std::string member;
  std::string socketDir;
  size_t slots = 2;  // versions kept at a time
};

// A version as its maker and its readers name it.
struct ShelvedId {
  VersionId id{};
  uint64_t digest = 0;
};

class DeviceShelf {
 public:
  static Result<std::shared_ptr<DeviceShelf>> open(const ShelfOptions& options);
  ~DeviceShelf() { close(); }
  DeviceShelf(const DeviceShelf&) = delete;
  DeviceShelf& operator=(const DeviceShelf&) = delete;

  const std::string& address() const { return address_; }

  // Offers the first `bytes` of `memory`, in the place of the oldest version. The caller does not write it from now on.
  // Code::Conflict for another digest or other memory under an id that is here. Calls the driver.
  Status put(const ShelvedId& named, std::shared_ptr<DeviceMemory> memory, uint64_t bytes);

  // Stops serving; readers keep what they have. Harmless twice.
  void close();

 private:
  struct Version {
    VersionId id;
    uint64_t digest;
    std::shared_ptr<DeviceMemory> memory;
    uint64_t bytes;
    UniqueFd fd;
  };

  explicit DeviceShelf(ShelfOptions options) : options_(std::move(options)) {}
  void serve();
  Status answer(Connection& connection, const Patience& patience);

  const ShelfOptions options_;
  std::string address_;
  UnixListener listener_;
  Abort closing_;
  std::mutex mutex_;
  std::list<Version> versions_;  // oldest first
  bool closed_ = false;
  std::thread server_;
};

struct TakeOptions {
  Bytes key;
  std::string job;
  std::string member;
  std::string holder;  // address of the shelf
  ShelvedId wanted;
};

struct TakenVersion {
  std::shared_ptr<DeviceMemory> memory;
  uint64_t bytes;
};

// Maps a version that is on a shelf of this host. Code::Gone when it is not there, Code::DigestMismatch when it has another digest,
// Code::Refused for another key or job, or when
// it lies on another GPU. Calls the driver.
Result<TakenVersion> takeVersion(std::shared_ptr<GpuDevice> gpu, const TakeOptions& options, const Patience& patience);

}  // namespace muster
