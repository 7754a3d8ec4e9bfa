// Addresses and sockets of the data plane: Unix stream sockets on one host, TCP between hosts.
#pragma once

#include <string>

#include "core/patience.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace muster {

// "unix:/run/muster/v-….sock" or "tcp:10.0.0.7:40123" or "tcp:[fd00::1]:40123". Hosts are numeric: resolving names could
// block without a deadline.
struct Address {
  enum class Kind { Unix, Tcp };
  Kind kind;
  std::string host;  // numeric host, or the socket's path
  uint16_t port = 0;

  std::string text() const;
};

Result<Address> parseAddress(const std::string& text);

// Path of a socket named after a hash of `name`, because a Unix socket path has at most 107 bytes.
Result<std::string> socketPath(const std::string& directory, char prefix, const std::string& name);

// A Unix listener that removes its socket file when it goes.
class UnixListener {
 public:
  static Result<UnixListener> open(const std::string& path);
  UnixListener() = default;
  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&& other) noexcept;
  ~UnixListener() { close(); }

  int fd() const { return fd_.get(); }
  void close();

 private:
  UniqueFd fd_;
  std::string path_;
};

struct TcpListener {
  UniqueFd fd;
  Address address;  // with the port the kernel chose
};

Result<TcpListener> listenTcp(const std::string& host);

// Takes one waiting connection; Code::Unreachable when there is none after all.
Result<UniqueFd> acceptFrom(int listener, Address::Kind kind);

// The same. When there are no descriptors or memory for it, it waits a moment before it says so, so that who asks again does not spin.
Result<UniqueFd> acceptPatiently(int listener, Address::Kind kind, const Patience& patience);

// The numeric host at the other end of a TCP connection; empty for another socket, and when it cannot be told.
std::string peerOf(int socket);

// Connects within the patience. Code::Unreachable when nobody listens there.
Result<UniqueFd> connectTo(const Address& address, const Patience& patience);

// The round trip that the kernel has measured on a TCP connection, rounded up; zero on a Unix socket.
Milliseconds roundTripOf(int socket);

// True when the other side has closed or is gone. Never blocks.
bool hasHungUp(int socket);

}  // namespace muster
