// A mesh over several hosts: each host has a segment of its own, with a record for every rank of the mesh, and the first
// rank of each host keeps the segments in step with those of the other hosts.
//
// What a rank announces crosses after the bytes that belong to it (see MeshCargo). So whoever sees a phase in its own
// segment sees those bytes, and the barriers and the verdicts are the same as on one host.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "core/mesh_cargo.h"
#include "core/mesh_watch.h"

namespace muster {

class MeshBridge {
 public:
  // `local` are the ranks of this host. Once a host has said something, it is lost when it is silent for `silence`. Segment, watch
  // and cargo must outlive the bridge.
  MeshBridge(const MeshSegment& segment, MeshWatch& watch, MeshCargo& cargo, std::vector<uint32_t> local, Milliseconds silence = network().hostSilence)
      : segment_(segment), watch_(watch), cargo_(cargo), local_(std::move(local)), silence_(silence) {}
  ~MeshBridge() { stop(); }
  MeshBridge(const MeshBridge&) = delete;
  MeshBridge& operator=(const MeshBridge&) = delete;

  // Keeps in step with another host, over a connection to its first rank.
  void add(MeshHost host, Connection connection);
  // Sends what the ranks of this host have announced so far, and ends. Harmless twice.
  void stop();

 private:
  struct Peer {
    MeshHost host;
    Connection connection;
    std::thread sender{};
    std::thread receiver{};
  };

  void sendLoop(Peer& peer);
  void sendUntilStopped(Peer& peer);
  Status sendNews(const MeshRoad& road, uint32_t rank, uint64_t& sentPhase, uint32_t& sentState, bool& sent);
  void receiveLoop(Peer& peer);
  Status receiveOne(Peer& peer, const Patience& patience);
  Status apply(const Peer& peer, ByteView news);
  void lose(const Peer& peer, const std::string& why);

  const MeshSegment& segment_;
  MeshWatch& watch_;
  MeshCargo& cargo_;
  const std::vector<uint32_t> local_;
  const Milliseconds silence_;
  Abort stopping_;  // senders finish what is announced
  Abort closing_;   // receivers, and senders that take too long, end at once
  std::mutex guard_;
  std::condition_variable ended_;
  size_t sending_ = 0;  // senders at work
  std::list<Peer> peers_;
};

}  // namespace muster
