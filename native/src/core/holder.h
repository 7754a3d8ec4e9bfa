// A holder of versions, as its readers call it: connecting, the proof, what is wanted, the grant. How long a holder may be silent follows the
// round trip to it, so that neither a long way nor a lost packet looks like a dead one.
#pragma once

#include "core/handshake.h"
#include "core/socket.h"
#include "core/version.h"

namespace muster {

// The longest silence that a round trip explains: TCP sends a lost packet again after the round trip and twice that, and never before
// 200 ms (RFC 6298 with its first measurement, and the minimum of Linux); then it has to come.
Milliseconds silenceOf(Milliseconds roundTrip);

struct Question {
  const Bytes& key;
  const std::string& job;
  const std::string& member;  // who asks
  VersionId id;
  PullRequest request;  // but for its time, which is what the patience leaves
  bool others;  // there are other holders to turn to
};

class Holder {
 public:
  // Connects. Code::Unreachable when nobody listens there, Code::Timeout when nobody answers; `hasty` gives up before the first packet
  // is sent a second time.
  static Result<Holder> reach(const Address& address, bool hasty, const Patience& patience);

  // The sections granted. A holder that says that it lives is waited for; where there are others, not when what it has does not
  // become more.
  Result<std::vector<Section>> ask(const Question& question, const Patience& patience);

  // Its address.
  const std::string& name() const { return name_; }
  Connection& connection() { return connection_; }
  // The patience for what it sends next. With `others` to turn to it is short.
  Patience streaming(const Patience& patience, bool others) const;

 private:
  Holder(UniqueFd socket, std::string name);
  Patience answering(const Patience& patience) const;

  std::string name_;
  Connection connection_;
  Milliseconds roundTrip_{0};
};

// How long the bytes of a stream have not become more.
class Starvation {
 public:
  explicit Starvation(std::string peer) : peer_(std::move(peer)) {}
  void fed() { since_ = Clock::now(); }
  // Code::Unreachable when it has lasted too long.
  Status check() const;

 private:
  const std::string peer_;
  Clock::time_point since_ = Clock::now();
};

}  // namespace muster
