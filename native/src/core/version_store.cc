#include "core/version_store.h"

#include "core/handshake.h"

namespace muster {

Result<std::shared_ptr<VersionStore>> VersionStore::open(const StoreOptions& options) {
  // A nonce in the name: a member that starts again must not take the socket from its former self.
  const auto nonce = freshNonce();
  const std::string name = options.job + "\n" + options.member + "\n" + std::string(nonce.begin(), nonce.end());
  const Result<std::string> path = socketPath(options.socketDir, 'v', name);
  if (!path.ok()) return path.status();
  Result<UnixListener> local = UnixListener::open(path.value());
  if (!local.ok()) return local.status();

  std::shared_ptr<VersionStore> store(new VersionStore(options));
  store->addresses_.push_back("unix:" + path.value());
  std::optional<TcpListener> remote;
  if (options.tcpHost) {
    Result<TcpListener> listener = listenTcp(*options.tcpHost);
    if (!listener.ok()) return listener.status();
    store->addresses_.push_back(listener.value().address.text());
    remote = std::move(listener.value());
  }
  store->server_ = std::make_unique<VersionServer>(store->arena_, store->deltas_, store->listener_,
                                                   ServerIdentity{options.key, options.job, options.holdMax}, std::move(local.value()),
                                                   std::move(remote));
  return store;
}

Result<std::vector<Section>> VersionStore::publish(VersionId id, const std::vector<SectionInput>& inputs,
                                                   const Abort& abort) {
  if (closed_) return Status{Code::Closed, "the version store is closed", {}};
  return arena_.publish(id, inputs, abort);
}

Result<VersionArena::Incoming> VersionStore::receive(VersionId id, std::vector<Section> sections) {
  if (closed_) return Status{Code::Closed, "the version store is closed", {}};
  return arena_.receive(id, std::move(sections));
}

void VersionStore::close() {
  closed_ = true;
  const std::lock_guard lock(closing_);
  server_.reset();
  arena_.close();
}

}  // namespace muster
