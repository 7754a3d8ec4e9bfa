// Mutual proof that both ends know the key of the job, before anything else is said.
//
//   client → Hello {purpose, minor, nonce, job, member, body}
//   server → Challenge {nonce, agreed minor, HMAC(key, "muster/2 server" ‖ hello ‖ nonce ‖ agreed)}
//   client → Proof {HMAC(key, "muster/2 client" ‖ hello ‖ nonce ‖ agreed)}
//
// `key` is one of this purpose, made from that of the job, so no proof serves for another purpose. The two labels keep a proof from being played
// back to its maker; the nonces make every proof fresh, and the session that follows from it. `body` is bound into both proofs: the version asked for, or the
// place in a mesh. So is the minor version: the lower one of both, and nobody in the middle can make it lower. Who speaks a newer one may say more behind `body`.
#pragma once

#include "core/connection.h"
#include "core/socket.h"

namespace muster {

enum class Purpose : uint8_t { Pull = 1, Mesh = 2, Device = 3 };

struct Hello {
  Purpose purpose{};
  std::string job{};
  std::string member{};
  Bytes body{};
  uint16_t minor = kMinorVersion;  // the newest that its sender speaks
};

// The client's side; the connection is secure afterwards. Code::Refused when the server does not know the key.
Status greet(Connection& connection, ByteView key, const Hello& hello, const Patience& patience);

// Calls, greets, and has what is granted at once: its payload has at most kWordBytesMax bytes, a descriptor may come beside it.
struct Granted {
  Connection connection;
  Bytes payload;
};
Result<Granted> callFor(const Address& address, ByteView key, const Hello& hello, const Patience& patience);

// The server's side: an authentic hello, and the connection is secure. What it asks for, and whether its job is ours, is for the caller to judge.
Result<Hello> welcome(Connection& connection, ByteView key, const Patience& patience);

// What a Hello frame says. Code::Corrupt when it cannot be read.
Result<Hello> decodeHello(ByteView bytes);

// Random bytes from the kernel.
std::array<uint8_t, 16> freshNonce();

}  // namespace muster
