#include "gpu/device_shelf.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <exception>
#include <system_error>

namespace muster {

namespace {

constexpr uint16_t kMinorWithUuid = 1;  // from this minor version on a grant names the GPU

// As nvidia-smi writes it.
std::string textOf(const cuda::Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); i++) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += {kDigits[uuid[i] >> 4], kDigits[uuid[i] & 15]};
  }
  return text;
}

}  // namespace

Result<std::shared_ptr<DeviceShelf>> DeviceShelf::open(const ShelfOptions& options) {
  const auto nonce = freshNonce();  // as for version stores: a member that starts again has a new name
  const std::string name = options.job + "\n" + options.member + "\n" + std::string(nonce.begin(), nonce.end());
  const Result<std::string> path = socketPath(options.socketDir, 'g', name);
  if (!path.ok()) return path.status();
  Result<UnixListener> listener = UnixListener::open(path.value());
  if (!listener.ok()) return listener.status();
  std::shared_ptr<DeviceShelf> shelf(new DeviceShelf(options));
  shelf->address_ = "unix:" + path.value();
  shelf->listener_ = std::move(listener.value());
  try {
    shelf->server_ = std::thread([raw = shelf.get()] { raw->serve(); });
  } catch (const std::system_error& error) {
    return Status{Code::Io, std::string("no thread: ") + error.what(), {}};
  }
  return shelf;
}

Status DeviceShelf::put(const ShelvedId& named, std::shared_ptr<DeviceMemory> memory, uint64_t bytes) {
  const auto& [id, digest] = named;
  Result<UniqueFd> fd = memory->share();
  if (!fd.ok()) return fd.status();
  std::list<Version> gone;  // given back after the lock
  const std::lock_guard lock(mutex_);
  if (closed_) return {Code::Closed, "the shelf is closed", {}};
  const auto at = std::ranges::find(versions_, id, &Version::id);
  if (at != versions_.end()) {
    if (at->memory == memory && at->bytes == bytes && at->digest == digest) return {};
    return {Code::Conflict, "version " + id.text() + " is here already, in other memory or with another digest", {}};
  }
  versions_.push_back({id, digest, std::move(memory), bytes, std::move(fd.value())});
  if (versions_.size() > options_.slots) gone.splice(gone.begin(), versions_, versions_.begin());
  return {};
}

void DeviceShelf::close() {
  closing_.request();
  std::list<Version> gone;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    gone.swap(versions_);
  }
  if (server_.joinable()) server_.join();
  listener_.close();
}

void DeviceShelf::serve() {
  while (!closing_.requested()) {
    pollfd watched[2] = {{closing_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    if (::poll(watched, 2, static_cast<int>(kShelfTick.count())) <= 0 || watched[1].revents == 0) continue;
    const Patience patience{Deadline::in(kShelfCaller), &closing_};
    Result<UniqueFd> socket = acceptPatiently(listener_.fd(), Address::Kind::Unix, patience);
    if (!socket.ok()) continue;
    try {
      Connection connection(std::move(socket.value()));
      const Status answered = answer(connection, patience);
      if (!answered.ok() && answered.code != Code::Unreachable) connection.refuse(answered, patience);
    } catch (const std::exception&) {
      // Out of memory, for this caller alone: it sees the connection close.
    }
  }
}

Status DeviceShelf::answer(Connection& connection, const Patience& patience) {
  const Result<Hello> hello = welcome(connection, options_.key, patience);
  if (!hello.ok()) return hello.status();
  if (hello.value().purpose != Purpose::Device) return {Code::Refused, "this is a shelf of device memory", {}};
  if (hello.value().job != options_.job) return {Code::Refused, "this shelf serves another job", {}};
  const Result<VersionId> id = decodeId(hello.value().body);
  if (!id.ok()) return id.status();
  Bytes grant;
  UniqueFd fd;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(versions_, id.value(), &Version::id);
    if (at == versions_.end()) return {Code::Gone, "version " + id.value().text() + " is not here", {}};
    grant = ByteWriter().number(at->bytes).number(static_cast<uint64_t>(at->memory->size())).number(at->digest).bytes();
    if (connection.minorVersion() >= kMinorWithUuid) {
      const cuda::Uuid uuid = at->memory->gpu().properties().uuid;
      grant.insert(grant.end(), uuid.begin(), uuid.end());
    }
    fd = UniqueFd(::fcntl(at->fd.get(), F_DUPFD_CLOEXEC, 0));  // the version may be taken off while the caller is slow
  }
  if (!fd) return {Code::Unreachable, "out of file descriptors", {}};
  return connection.send({FrameType::Grant, grant, 0, fd.get()}, patience);
}

Result<TakenVersion> takeVersion(std::shared_ptr<GpuDevice> gpu, const TakeOptions& options, const Patience& patience) {
  const Result<Address> holder = parseAddress(options.holder);
  if (!holder.ok()) return holder.status();
  const Hello hello{Purpose::Device, options.job, options.member, encodeId(options.wanted.id)};
  Result<Granted> granted = callFor(holder.value(), options.key, hello, patience);
  if (!granted.ok()) return granted.status();
  ByteReader in(granted.value().payload);
  const auto bytes = in.number<uint64_t>();
  const auto size = in.number<uint64_t>();
  const auto digest = in.number<uint64_t>();
  cuda::Uuid uuid{};
  if (granted.value().connection.minorVersion() >= kMinorWithUuid) std::ranges::copy(in.raw(uuid.size()), uuid.begin());
  const UniqueFd fd = granted.value().connection.takeFd();
  if (!in.finished() || bytes > size || !fd) return Status{Code::Corrupt, "a grant that cannot be read", {}};
  if (digest != options.wanted.digest)
    return Status{Code::DigestMismatch, options.holder + " has another digest of version " + options.wanted.id.text(), {}};
  const cuda::Uuid own = gpu->properties().uuid;
  if (uuid != cuda::Uuid{} && own != cuda::Uuid{} && uuid != own)
    return Status{Code::Refused, options.holder + " has version " + options.wanted.id.text() + " on " + textOf(uuid) + ", not on " + textOf(own), {}};
  if (size > gpu->properties().memoryBytes) return Status{Code::Corrupt, "the memory offered is larger than the GPU", {}};
  const auto memory = DeviceMemory::import(std::move(gpu), fd.get(), size);
  if (!memory.ok()) return memory.status();
  return TakenVersion{memory.value(), bytes};
}

}  // namespace muster
