// Serves the versions of an arena to any number of readers, on a Unix socket and perhaps on TCP, from threads of its own.
// A version that is still arriving is streamed as far as it has come, so that receivers form a chain.
#pragma once

#include <thread>

#include "core/delta_source.h"
#include "core/guest_list.h"
#include "core/mesh_listener.h"
#include "core/socket.h"
#include "core/version_arena.h"

namespace muster {

struct ServerIdentity {
  Bytes key;
  std::string job;
  Milliseconds holdMax;  // of memory that a reader of this host has
};

class VersionServer {
 public:
  // Arena, deltas and listener must outlive the server.
  VersionServer(VersionArena& arena, DeltaLog& deltas, MeshListener& listener, ServerIdentity identity, UnixListener local,
                std::optional<TcpListener> remote);
  ~VersionServer();
  VersionServer(const VersionServer&) = delete;
  VersionServer& operator=(const VersionServer&) = delete;

 private:
  void acceptLoop();
  void acceptOne(int listener, Address::Kind kind);
  void serve(Guest& guest, Connection connection);
  Status answer(Guest& guest, Connection& connection, const Patience& patience);
  Result<VersionArena::Lease> awaitLease(Connection& connection, VersionId id, const Patience& patience);
  Status awaitWhole(Connection& connection, const VersionArena::Lease& lease, const Patience& patience);
  Status hold(Connection& connection, VersionArena::Lease& lease, const std::vector<Section>& sections,
              const Patience& patience);  // until it is granted
  struct Reading {
    const Abort& leaving;
    Connection& connection;
    const VersionArena::Lease& lease;
    const std::vector<Section>& sections;  // as asked for
    const PullRequest& request;
    VersionId id;

    Patience stalling() const { return {Deadline::in(network().stall), &leaving}; }
  };
  Status stream(const Reading& reading);
  Status sendRange(const Reading& reading, ByteRange range);

  VersionArena& arena_;
  DeltaLog& deltas_;
  MeshListener& listener_;
  const ServerIdentity identity_;
  UnixListener local_;
  std::optional<TcpListener> remote_;
  Abort closing_;
  std::atomic<size_t> readers_{0};
  GuestList guests_;      // touched by the accepting thread alone
  std::thread acceptor_;  // last, so that everything it uses exists
};

}  // namespace muster
