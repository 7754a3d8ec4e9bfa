#include "core/handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <stdexcept>

namespace muster {

namespace {

using Nonce = std::array<uint8_t, 16>;

constexpr std::string_view kServer = "muster/2 server";
constexpr std::string_view kClient = "muster/2 client";
constexpr std::string_view kPurpose = "muster/2 purpose";
constexpr std::string_view kToServer = "muster/2 to server";
constexpr std::string_view kToClient = "muster/2 to client";

// What both ends have said: everything that they prove, and that their keys follow from, is about it.
class Talk {
 public:
  Talk(ByteView key, Purpose purpose, ByteView hello, ByteView nonce, uint16_t minor) : hello_(hello), nonce_(nonce), minor_(minor) {
    const auto which = static_cast<uint8_t>(purpose);
    const ByteView parts[] = {viewOf(kPurpose), {&which, 1}};
    key_ = hmacSha256(key, parts);
  }

  Sha256Digest about(std::string_view label) const {
    const Bytes minor = ByteWriter().number(minor_).bytes();
    const ByteView parts[] = {viewOf(label), hello_, nonce_, minor};
    return hmacSha256(key_, parts);
  }
  bool proves(std::string_view label, ByteView proof) const { return equalInConstantTime(proof, about(label)); }
  Session session(std::string_view out, std::string_view in) const { return {Seal(about(out)), Seal(about(in)), minor_}; }

 private:
  const ByteView hello_, nonce_;
  const uint16_t minor_;
  Sha256Digest key_;
};

Bytes encode(const Hello& hello, const Nonce& nonce) {
  ByteWriter out;
  out.number(static_cast<uint8_t>(hello.purpose)).number(hello.minor).raw(nonce).text(hello.job).text(hello.member);
  return out.number(static_cast<uint32_t>(hello.body.size())).raw(hello.body).bytes();
}

}  // namespace

Result<Hello> decodeHello(ByteView bytes) {
  ByteReader in(bytes);
  Hello hello;
  hello.purpose = static_cast<Purpose>(in.number<uint8_t>());
  hello.minor = in.number<uint16_t>();
  in.raw(sizeof(Nonce));
  hello.job = in.text();
  hello.member = in.text();
  const ByteView body = in.raw(in.number<uint32_t>());
  hello.body.assign(body.begin(), body.end());
  if (hello.minor > kMinorVersion) in.raw(in.remaining());  // what this build does not know
  if (!in.finished()) return Status{Code::Corrupt, "a greeting that cannot be read", {}};
  return hello;
}

std::array<uint8_t, 16> freshNonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    throw std::runtime_error("the kernel gives no random bytes");
  return nonce;
}

Status greet(Connection& connection, ByteView key, const Hello& hello, const Patience& patience) {
  const Bytes greeting = encode(hello, freshNonce());
  if (Status sent = connection.send({FrameType::Hello, greeting}, patience); !sent.ok()) return sent;
  const Result<Bytes> challenge = connection.receive(FrameType::Challenge, patience);
  if (!challenge.ok()) return challenge.status();
  ByteReader in(challenge.value());
  const ByteView nonce = in.raw(sizeof(Nonce));
  const auto minor = in.number<uint16_t>();
  const ByteView proof = in.raw(sizeof(Sha256Digest));
  const Talk talk(key, hello.purpose, greeting, nonce, minor);
  if (!in.finished() || minor > hello.minor || !talk.proves(kServer, proof))
    return {Code::Refused, "the other side does not know the key of this job", {}};
  Status sent = connection.send({FrameType::Proof, talk.about(kClient)}, patience);
  if (sent.ok()) connection.secure(talk.session(kToServer, kToClient));
  return sent;
}

Result<Granted> callFor(const Address& address, ByteView key, const Hello& hello, const Patience& patience) {
  Result<UniqueFd> socket = connectTo(address, patience);
  if (!socket.ok()) return socket.status();
  Connection connection(std::move(socket.value()));
  if (Status greeted = greet(connection, key, hello, patience); !greeted.ok()) return greeted;
  Result<Bytes> grant = connection.receive(FrameType::Grant, patience, kWordBytesMax);
  if (!grant.ok()) return grant.status();
  return Granted{std::move(connection), std::move(grant.value())};
}

Result<Hello> welcome(Connection& connection, ByteView key, const Patience& patience) {
  const Result<Bytes> greeting = connection.receive(FrameType::Hello, patience);
  if (!greeting.ok()) return greeting.status();
  Result<Hello> hello = decodeHello(greeting.value());
  if (!hello.ok()) return hello;
  const Nonce nonce = freshNonce();
  const uint16_t minor = std::min(hello.value().minor, kMinorVersion);
  const Talk talk(key, hello.value().purpose, greeting.value(), nonce, minor);
  ByteWriter challenge;
  challenge.raw(nonce).number(minor).raw(talk.about(kServer));
  if (Status sent = connection.send({FrameType::Challenge, challenge.bytes()}, patience); !sent.ok()) return sent;
  const Result<Bytes> proof = connection.receive(FrameType::Proof, patience);
  if (!proof.ok()) return proof.status();
  if (!talk.proves(kClient, proof.value())) return Status{Code::Refused, "the caller does not know the key of this job", {}};
  connection.secure(talk.session(kToClient, kToServer));
  return hello;
}

}  // namespace muster
