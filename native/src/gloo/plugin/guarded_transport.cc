#include "gloo/plugin/guarded_transport.h"

#include <gloo/common/error.h>
#include <gloo/transport/pair.h>

namespace muster::gloo_plugin {

GuardedBuffer::GuardedBuffer(std::shared_ptr<GuardedTransport> guard, std::unique_ptr<UnboundBuffer> buffer)
    : UnboundBuffer(buffer->ptr, buffer->size), guard_(std::move(guard)), buffer_(std::move(buffer)) {
  const std::lock_guard lock(guard_->abortGuard_);
  guard_->buffers_.insert(this);
}

GuardedBuffer::~GuardedBuffer() {
  const std::lock_guard lock(guard_->abortGuard_);
  guard_->buffers_.erase(this);
}

// The flag of an aborted buffer stays up until a wait has seen it, so none is missed between the look and the wait. Gloo's algorithms take a wait
// that was cut short for one that ended, so it must throw.
bool GuardedBuffer::waitRecv(int* rank, std::chrono::milliseconds timeout) {
  guard_->throwIfAborted();
  const bool done = buffer_->waitRecv(rank, timeout);
  guard_->throwIfAborted();
  return done;
}

bool GuardedBuffer::waitSend(int* rank, std::chrono::milliseconds timeout) {
  guard_->throwIfAborted();
  const bool done = buffer_->waitSend(rank, timeout);
  guard_->throwIfAborted();
  return done;
}

std::unique_ptr<gloo::transport::UnboundBuffer> GuardedTransport::createUnboundBuffer(void* memory, size_t bytes) {
  throwIfAborted();
  return std::make_unique<GuardedBuffer>(shared_from_this(), transport_->createUnboundBuffer(memory, bytes));
}

void GuardedTransport::abort(const std::string& reason) {
  {
    const std::lock_guard lock(abortGuard_);
    if (aborted_) return;
    aborted_ = true;
    reason_ = reason;
  }
  for (int other = 0; other < size; other++)
    if (const auto& pair = getPair(other)) pair->close();  // after this it touches no buffer
  const std::lock_guard lock(abortGuard_);
  for (GuardedBuffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

void GuardedTransport::throwIfAborted() {
  const std::lock_guard lock(abortGuard_);
  if (aborted_) throw gloo::IoException(reason_);
}

}  // namespace muster::gloo_plugin
