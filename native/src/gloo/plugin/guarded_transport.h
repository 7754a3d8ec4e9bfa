// A transport of Gloo whose waits can be ended from outside. Gloo itself tells a wait about a broken connection only while nothing of its message
// has moved yet: a wait in the middle of a message, which is where ranks die, would last until its time-out.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace muster::gloo_plugin {

class GuardedTransport;

// A buffer whose waits throw once its transport was aborted.
class GuardedBuffer : public gloo::transport::UnboundBuffer {
 public:
  GuardedBuffer(std::shared_ptr<GuardedTransport> guard, std::unique_ptr<UnboundBuffer> buffer);
  ~GuardedBuffer() override;

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override;
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override;
  void abortWaitRecv() override { buffer_->abortWaitRecv(); }
  void abortWaitSend() override { buffer_->abortWaitSend(); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override { buffer_->send(to, slot, offset, bytes); }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override { buffer_->recv(from, slot, offset, bytes); }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override { buffer_->recv(from, slot, offset, bytes); }

 private:
  const std::shared_ptr<GuardedTransport> guard_;
  const std::unique_ptr<UnboundBuffer> buffer_;
};

// Another transport's connections and buffers, the buffers guarded.
class GuardedTransport : public gloo::transport::Context, public std::enable_shared_from_this<GuardedTransport> {
 public:
  explicit GuardedTransport(std::shared_ptr<gloo::transport::Context> transport)
      : Context(transport->rank, transport->size), transport_(std::move(transport)) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int other) override { return transport_->getPair(other); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int other) override { return transport_->createPair(other); }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* memory, size_t bytes) override;

  // Closes all connections and ends all waits, also those that begin later.
  void abort(const std::string& reason);
  void throwIfAborted();

 private:
  friend class GuardedBuffer;

  const std::shared_ptr<gloo::transport::Context> transport_;
  std::mutex abortGuard_;
  bool aborted_ = false;
  std::string reason_;
  std::set<GuardedBuffer*> buffers_;  // all that exist
};

}  // namespace muster::gloo_plugin
