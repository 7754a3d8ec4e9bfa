// How a native operation says that it failed: a code, a sentence, and the ranks concerned. No exception crosses a thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

enum class Code : uint8_t {
  Ok,
  InvalidArgument,
  Unsupported,
  Io,
  Unreachable,
  Timeout,
  Aborted,
  Refused,
  Gone,
  DigestMismatch,
  Conflict,
  TooLarge,
  Corrupt,
  PeerLost,
  Disagreement,
  Closed,
};

// The name under which a code is known in JavaScript.
inline const char* nameOf(Code code) {
  switch (code) {
    case Code::Ok: return "OK";
    case Code::InvalidArgument: return "INVALID_ARGUMENT";
    case Code::Unsupported: return "UNSUPPORTED";
    case Code::Io: return "IO";
    case Code::Unreachable: return "UNREACHABLE";
    case Code::Timeout: return "TIMEOUT";
    case Code::Aborted: return "ABORTED";
    case Code::Refused: return "REFUSED";
    case Code::Gone: return "GONE";
    case Code::DigestMismatch: return "DIGEST_MISMATCH";
    case Code::Conflict: return "CONFLICT";
    case Code::TooLarge: return "TOO_LARGE";
    case Code::Corrupt: return "CORRUPT";
    case Code::PeerLost: return "PEER_LOST";
    case Code::Disagreement: return "DISAGREEMENT";
    case Code::Closed: return "CLOSED";
  }
  return "UNKNOWN";
}

struct [[nodiscard]] Status {
  Code code = Code::Ok;
  std::string message{};
  std::vector<uint32_t> ranks{};

  bool ok() const { return code == Code::Ok; }
};

// A failed system call: what was tried and what the kernel said.
inline Status ioError(const std::string& what, int error) {
  return {Code::Io, what + ": " + std::strerror(error), {}};
}

// A value, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace muster
