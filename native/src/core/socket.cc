#include "core/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/activity.h"
#include "core/xxh64.h"

namespace muster {

namespace {

// A socket address of either family, ready for bind and connect.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Endpoint> toEndpoint(const Address& address) {
  Endpoint out;
  if (address.kind == Address::Kind::Unix) {
    auto* local = reinterpret_cast<sockaddr_un*>(&out.storage);
    if (address.host.size() >= sizeof local->sun_path)
      return Status{Code::InvalidArgument,
                    "socket path \"" + address.host + "\" has " + std::to_string(address.host.size()) +
                        " bytes, the limit is 107; choose a shorter socket directory",
                    {}};
    local->sun_family = AF_UNIX;
    std::memcpy(local->sun_path, address.host.c_str(), address.host.size() + 1);
    out.length = sizeof *local;
    return out;
  }
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (::inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    out.length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    out.length = sizeof *v6;
  } else {
    return Status{Code::InvalidArgument, "\"" + address.host + "\" is not a numeric IP address", {}};
  }
  return out;
}

void withoutDelay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

std::string Address::text() const {
  if (kind == Kind::Unix) return "unix:" + host;
  const bool v6 = host.find(':') != std::string::npos;
  return "tcp:" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parseAddress(const std::string& text) {
  if (text.starts_with("unix:/")) return Address{Address::Kind::Unix, text.substr(5)};
  const size_t colon = text.rfind(':');
  if (text.starts_with("tcp:") && colon > 4) {
    std::string host = text.substr(4, colon - 4);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const std::string digits = text.substr(colon + 1);
    const bool numeric = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
    const long port = numeric && digits.size() <= 5 ? std::strtol(digits.c_str(), nullptr, 10) : 0;
    if (port > 0 && port <= UINT16_MAX) return Address{Address::Kind::Tcp, host, static_cast<uint16_t>(port)};
  }
  return Status{Code::InvalidArgument, "\"" + text + "\" is not an address like unix:/path or tcp:host:port", {}};
}

Result<std::string> socketPath(const std::string& directory, char prefix, const std::string& name) {
  const std::string path = directory + "/" + prefix + "-" + toHex(xxh64(viewOf(name))) + ".sock";
  const Result<Endpoint> endpoint = toEndpoint({Address::Kind::Unix, path});
  if (!endpoint.ok()) return endpoint.status();
  return path;
}

Result<UnixListener> UnixListener::open(const std::string& path) {
  const Result<Endpoint> endpoint = toEndpoint({Address::Kind::Unix, path});
  if (!endpoint.ok()) return endpoint.status();
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ioError("socket", errno);
  ::unlink(path.c_str());  // left over from a killed process; the name belongs to this listener alone
  if (::bind(fd.get(), endpoint.value().get(), endpoint.value().length) != 0)
    return ioError("cannot bind " + path, errno);
  UnixListener listener;
  listener.fd_ = std::move(fd);
  listener.path_ = path;
  if (::chmod(path.c_str(), 0600) != 0) return ioError("chmod " + path, errno);
  if (::listen(listener.fd(), kBacklog) != 0) return ioError("cannot listen on " + path, errno);
  return listener;
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::move(other.fd_);
  path_ = std::exchange(other.path_, {});
  return *this;
}

void UnixListener::close() {
  if (!fd_) return;
  fd_.reset();
  ::unlink(path_.c_str());
}

Result<TcpListener> listenTcp(const std::string& host) {
  Result<Endpoint> endpoint = toEndpoint({Address::Kind::Tcp, host});
  if (!endpoint.ok()) return endpoint.status();
  Endpoint& at = endpoint.value();
  UniqueFd fd(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ioError("socket", errno);
  if (::bind(fd.get(), at.get(), at.length) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return ioError("cannot listen on " + host, errno);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at.storage), &at.length) != 0)
    return ioError("getsockname", errno);
  const uint16_t port = at.storage.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&at.storage)->sin_port
                                                        : reinterpret_cast<sockaddr_in6*>(&at.storage)->sin6_port;
  return TcpListener{std::move(fd), {Address::Kind::Tcp, host, ntohs(port)}};
}

Result<UniqueFd> acceptFrom(int listener, Address::Kind kind) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    const bool nobody = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
    return nobody ? Status{Code::Unreachable, "nobody waits", {}} : ioError("accept", errno);
  }
  if (kind == Address::Kind::Tcp) withoutDelay(socket.get());
  activity().accepted++;
  return socket;
}

Result<UniqueFd> acceptPatiently(int listener, Address::Kind kind, const Patience& patience) {
  Result<UniqueFd> socket = acceptFrom(listener, kind);
  if (socket.status().code != Code::Io) return socket;
  if (Status waited = pause(kShort, patience); !waited.ok()) return waited;
  return socket;
}

std::string peerOf(int socket) {
  Endpoint peer;
  peer.length = sizeof peer.storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) return {};
  if (peer.storage.ss_family != AF_INET && peer.storage.ss_family != AF_INET6) return {};
  char text[INET6_ADDRSTRLEN]{};
  const bool v4 = peer.storage.ss_family == AF_INET;
  const void* host = v4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&peer.storage)->sin_addr)
                        : &reinterpret_cast<const sockaddr_in6*>(&peer.storage)->sin6_addr;
  return ::inet_ntop(peer.storage.ss_family, host, text, sizeof text) == nullptr ? std::string() : text;
}

Result<UniqueFd> connectTo(const Address& address, const Patience& patience) {
  const Result<Endpoint> endpoint = toEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  const Endpoint& at = endpoint.value();
  UniqueFd socket(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ioError("socket", errno);
  if (address.kind == Address::Kind::Tcp) withoutDelay(socket.get());
  int error = ::connect(socket.get(), at.get(), at.length) == 0 ? 0 : errno;
  // A Unix socket says so when too many wait there already. Somebody is there: it takes its time.
  while (error == EAGAIN && address.kind == Address::Kind::Unix) {
    if (Status waited = pause(kBusy, patience); !waited.ok()) return waited;
    error = ::connect(socket.get(), at.get(), at.length) == 0 ? 0 : errno;
  }
  if (error == EINPROGRESS || error == EINTR) {
    const Status ready = awaitReady(socket.get(), POLLOUT, patience);
    if (!ready.ok()) return ready;
    socklen_t size = sizeof error;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error != 0) return Status{Code::Unreachable, std::string("cannot connect: ") + std::strerror(error), {}};
  activity().opened++;
  return socket;
}

Milliseconds roundTripOf(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return Milliseconds(0);
  // The second is what a receiver sees, in which queues on the way show.
  return std::chrono::ceil<Milliseconds>(std::chrono::microseconds(std::max(info.tcpi_rtt, info.tcpi_rcv_rtt)));
}

bool hasHungUp(int socket) {
  uint8_t next;
  const ssize_t got = ::recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace muster
