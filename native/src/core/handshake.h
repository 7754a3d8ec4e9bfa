// Mutual proof that both ends know the key of the job, before anything else is said.
//
//   client → Hello {purpose, nonce, job, member, body}
//   server → Challenge {nonce, HMAC(key, "muster/1 server" ‖ hello ‖ nonce)}
//   client → Proof {HMAC(key, "muster/1 client" ‖ hello ‖ nonce)}
//
// The two labels keep a proof from being played back to its maker; the nonces make every proof fresh. `body` is bound
// into both proofs: the version asked for, or the place in a mesh.
#pragma once

#include "core/connection.h"

namespace muster {

enum class Purpose : uint8_t { Pull = 1, Mesh = 2, Device = 3 };

struct Hello {
  Purpose purpose{};
  std::string job{};
  std::string member{};
  Bytes body{};
};

// The client's side. Code::Refused when the server does not know the key.
Status greet(Connection& connection, ByteView key, const Hello& hello, const Patience& patience);

// The server's side: an authentic hello. What it asks for, and whether its job is ours, is for the caller to judge.
Result<Hello> welcome(Connection& connection, ByteView key, const Patience& patience);

// What a Hello frame says. Code::Corrupt when it cannot be read.
Result<Hello> decodeHello(ByteView bytes);

// Random bytes from the kernel.
std::array<uint8_t, 16> freshNonce();

}  // namespace muster
