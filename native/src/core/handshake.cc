#include "core/handshake.h"

#include <sys/random.h>

#include <stdexcept>

#include "core/sha256.h"

namespace muster {

namespace {

using Nonce = std::array<uint8_t, 16>;

Sha256Digest prove(ByteView key, std::string_view role, ByteView hello, ByteView nonce) {
  const ByteView parts[] = {viewOf(role), hello, nonce};
  return hmacSha256(key, parts);
}

constexpr std::string_view kServer = "muster/1 server";
constexpr std::string_view kClient = "muster/1 client";

Bytes encode(const Hello& hello, const Nonce& nonce) {
  ByteWriter out;
  out.number(static_cast<uint8_t>(hello.purpose)).raw(nonce).text(hello.job).text(hello.member);
  return out.number(static_cast<uint32_t>(hello.body.size())).raw(hello.body).bytes();
}

}  // namespace

Result<Hello> decodeHello(ByteView bytes) {
  ByteReader in(bytes);
  Hello hello;
  hello.purpose = static_cast<Purpose>(in.number<uint8_t>());
  in.raw(sizeof(Nonce));
  hello.job = in.text();
  hello.member = in.text();
  const ByteView body = in.raw(in.number<uint32_t>());
  hello.body.assign(body.begin(), body.end());
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
  const ByteView proof = in.raw(sizeof(Sha256Digest));
  if (!in.finished() || !equalInConstantTime(proof, prove(key, kServer, greeting, nonce)))
    return {Code::Refused, "the other side does not know the key of this job", {}};
  return connection.send({FrameType::Proof, prove(key, kClient, greeting, nonce)}, patience);
}

Result<Hello> welcome(Connection& connection, ByteView key, const Patience& patience) {
  const Result<Bytes> greeting = connection.receive(FrameType::Hello, patience);
  if (!greeting.ok()) return greeting.status();
  Result<Hello> hello = decodeHello(greeting.value());
  if (!hello.ok()) return hello;
  const Nonce nonce = freshNonce();
  ByteWriter challenge;
  challenge.raw(nonce).raw(prove(key, kServer, greeting.value(), nonce));
  if (Status sent = connection.send({FrameType::Challenge, challenge.bytes()}, patience); !sent.ok()) return sent;
  const Result<Bytes> proof = connection.receive(FrameType::Proof, patience);
  if (!proof.ok()) return proof.status();
  if (!equalInConstantTime(proof.value(), prove(key, kClient, greeting.value(), nonce)))
    return Status{Code::Refused, "the caller does not know the key of this job", {}};
  return hello;
}

}  // namespace muster
